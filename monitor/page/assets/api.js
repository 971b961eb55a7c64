// Questions to the server that are asked once. The token is in a cookie that scripts
// can't read.

/** What a GET answers; an Error with the server's own words if it refuses. */
export async function ask(path, parameters, signal) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, { cache: "no-store", signal });
  if (answer.ok) return answer.json();
  let why = `the server answers ${answer.status}`;
  try {
    why = (await answer.json()).error || why;
  } catch {
    // No JSON: the status says it.
  }
  throw new Error(why);
}

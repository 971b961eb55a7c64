// The connection to the server: events come in, and it says how it stands. It is made
// again for as long as the page is open. fetch and not EventSource, because that one
// doesn't tell a refused token from a server that is gone.

/** Nothing for so long (ms), and the connection is held for dead; the server says something at least every 15 s. */
const patience = 20000;

/** How long to wait (ms) before the next attempts. */
const pauses = [250, 500, 1000, 2000, 3000];

export class Feed {
  #url;
  #onEvent;
  #onState;
  #stopped = false;
  #wake = null;
  #state = "";
  #abort = null;

  /**
   * `onEvent(name, data)` gets each event. `onState(state, text)` gets "connecting",
   * "live", "lost" (tried again by itself), "full" (too many pages; tried again) and
   * "refused" (the token; tried again after retry()).
   */
  constructor({ url, onEvent, onState }) {
    this.#url = url;
    this.#onEvent = onEvent;
    this.#onState = onState;
  }

  async run() {
    this.#tell("connecting");
    for (let failures = 0; !this.#stopped; ) {
      let answer = null;
      this.#abort = new AbortController();
      try {
        answer = await this.#connect();
        if (answer.status === 401) {
          this.#tell("refused");
          await this.#sleep(1e9);
          continue;
        }
        if (answer.status === 429) {
          this.#tell("full");
          await this.#sleep(1000 * (Number(answer.headers.get("Retry-After")) || 5));
          continue;
        }
        if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
        await this.#read(answer, () => {
          failures = 0;
          this.#tell("live");
        });
      } catch {
        // Whatever it was, the answer is the same: say so and try again.
      } finally {
        this.#abort.abort();
      }
      if (this.#stopped) return;
      this.#tell("lost");
      await this.#sleep(pauses[Math.min(failures++, pauses.length - 1)]);
    }
  }

  /** Tries now; for a new token, or a machine that is back from sleep. */
  retry() {
    if (this.#state !== "live") this.#wake?.();
  }

  stop() {
    this.#stopped = true;
    this.#abort?.abort();
    this.#wake?.();
  }

  #connect() {
    const late = setTimeout(() => this.#abort.abort(), patience);
    return fetch(this.#url, { headers: { Accept: "text/event-stream" }, cache: "no-store", signal: this.#abort.signal }).finally(() => clearTimeout(late));
  }

  async #read(answer, alive) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser((name, data) => {
      alive();
      this.#onEvent(name, JSON.parse(data));
    });
    let late = setTimeout(() => this.#abort.abort(), patience);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(late);
        late = setTimeout(() => this.#abort.abort(), patience);
        parser.push(value);
      }
    } finally {
      clearTimeout(late);
    }
  }

  #tell(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.#onState(state);
  }

  #sleep(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.min(ms, 2 ** 31 - 1));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    }).finally(() => {
      this.#wake = null;
    });
  }
}

/** Takes a stream of server-sent events apart, wherever its pieces are cut. */
export class Parser {
  #emit;
  #rest = "";
  #name = "";
  #data = [];

  constructor(emit) {
    this.#emit = emit;
  }

  push(text) {
    // Pieces are joined once a line is whole, so a long line costs what it is long.
    let from = 0;
    for (;;) {
      const end = text.indexOf("\n", from);
      if (end < 0) break;
      this.#line(this.#rest + text.slice(from, end));
      this.#rest = "";
      from = end + 1;
    }
    this.#rest += text.slice(from);
  }

  #line(line) {
    if (line.endsWith("\r")) line = line.slice(0, -1);
    if (line === "") {
      if (this.#data.length > 0) this.#emit(this.#name || "message", this.#data.join("\n"));
      this.#name = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
  }
}

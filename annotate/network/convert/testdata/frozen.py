"""Makes a frozen graph of TensorFlow that averages two small splicing networks, and what TensorFlow says of random bases by it.

frozen.py FOLDER: it writes tiny4.pb, tiny4.txt (windows) and tiny4.f32 (probabilities [window, 3, position], little-endian). In the first network convolutions
whose weights are apart deal the bases out to batches, and softmax is written out, as in CI-SpliceAI's graph of TensorFlow 1; in the second neither is.
Needs TensorFlow 2, which the tests do without: they read what it wrote.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
CHANNELS, CONTEXT, POSITIONS = 2, 8, 101


def constant(rng, scale, *shape):
    return tf.identity(tf.constant(rng.normal(0, scale, shape).astype(np.float32)))


def conv(rng, x, filters, width=1, dilation=1, batches=False):
    kernel = constant(rng, 1 / np.sqrt(width * x.shape[2]), width, x.shape[2], filters)
    four = tf.expand_dims(kernel, 0)
    if batches:
        base = tf.constant([[(width - 1) * dilation // 2] * 2], name="stack")
        pads, crops = tf.required_space_to_batch_paddings(tf.shape(x)[1:2], [dilation], base)
        y = tf.space_to_batch(x, [dilation], pads)
        y = tf.squeeze(tf.nn.conv2d(tf.expand_dims(y, -3), four, 1, "VALID"), [-3])
        y = tf.batch_to_space(y, [dilation], crops)
    else:
        y = tf.squeeze(tf.nn.conv2d(tf.expand_dims(x, -3), four, 1, "SAME" if width > 1 else "VALID", dilations=[1, 1, dilation, 1]), [-3])
    return tf.nn.bias_add(y, constant(rng, 0.1, filters))


def norm(rng, x):
    n = x.shape[2]
    variance = tf.identity(tf.constant(rng.uniform(0.5, 1.5, n).astype(np.float32)))
    scale = tf.math.rsqrt(variance + 1e-3) * constant(rng, 1, n)
    return x * scale + (constant(rng, 0.2, n) - constant(rng, 0.2, n) * scale)


def network(seed, x, old):
    rng = np.random.default_rng(seed)
    x = conv(rng, x, CHANNELS)
    skip = conv(rng, x, CHANNELS)
    y = conv(rng, tf.nn.relu(norm(rng, x)), CHANNELS, 3, 2, old)
    y = conv(rng, tf.nn.relu(norm(rng, y)), CHANNELS, 3, 2, old)
    skip += conv(rng, y + x, CHANNELS)
    y = conv(rng, skip[:, CONTEXT // 2 : -(CONTEXT // 2), :], 3)
    if not old:
        return tf.nn.softmax(y)
    e = tf.exp(y - tf.reduce_max(y, -1, keepdims=True))
    return e / tf.reduce_sum(e, -1, keepdims=True)


def main(folder):
    letters = np.random.default_rng(4).integers(0, 5, (2, CONTEXT + POSITIONS))
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, None, 4], name="x")
        y = tf.identity(tf.reduce_mean(tf.stack([network(1, x, True), network(2, x, False)]), 0))
        with v1.Session(graph=graph) as session:
            out = session.run(y, {x: np.eye(5, dtype=np.float32)[letters][..., :4]})
    (folder / "tiny4.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
    (folder / "tiny4.txt").write_text("\n".join("".join("ACGTN"[i] for i in row) for row in letters) + "\n")
    (folder / "tiny4.f32").write_bytes(out.transpose(0, 2, 1).astype("<f4").tobytes())


main(pathlib.Path(sys.argv[1]))

"""Makes tiny3.keras and tiny3.h5 with Keras 3 (any backend), and what it says of random bases: python3 -P keras3.py FOLDER,
as without -P the file keras.py beside it would be imported.

Beside it are tiny3.txt (windows) and tiny3.f32 (probabilities [window, 3, position], little-endian).
"""

import pathlib
import sys

import keras
import numpy as np
from keras import layers


def network():
    bases = keras.Input((None, 4))
    x = layers.Conv1D(2, 1)(bases)
    skip = layers.Conv1D(2, 1, padding="valid", name="left_out")(x)
    y = layers.Activation("relu")(layers.BatchNormalization()(x))
    y = layers.Conv1D(2, 3, dilation_rate=2, padding="same")(y)
    y = layers.ReLU()(layers.BatchNormalization(name="odd")(y))
    y = layers.Conv1D(2, 3, dilation_rate=2, padding="same")(y)
    x = layers.Add()([y, x])
    skip = layers.add([skip, layers.Conv1D(2, 1, use_bias=False)(x)])
    skip = layers.Cropping1D(4)(layers.Dropout(0.1)(skip))
    return keras.Model(bases, layers.Conv1D(3, 1, activation="softmax")(skip))


def main(folder):
    rng = np.random.default_rng(7)
    model = network()
    for w in model.weights:
        value = rng.uniform(0.5, 1.5, w.shape) if "variance" in w.path else rng.normal(0, 0.6, w.shape)
        w.assign(value.astype("f4"))
    model.save(folder / "tiny3.keras")
    model.save(folder / "tiny3.h5")
    letters = rng.integers(0, 5, (2, 109))
    bases = np.eye(5, dtype="f4")[letters][..., :4]
    (folder / "tiny3.txt").write_text("\n".join("".join("ACGTN"[i] for i in row) for row in letters) + "\n")
    probabilities = keras.ops.convert_to_numpy(model(bases, training=False))
    (folder / "tiny3.f32").write_bytes(probabilities.transpose(0, 2, 1).astype("<f4").tobytes())


main(pathlib.Path(sys.argv[1]))

"""``padenet.keras`` on the backend of this process: run by ``test_backends.py``, once on each."""

import json
import os

import keras
import numpy as np
import pytest
from keras import layers

import padenet.keras
import padenet.numpy
from padenet.core import FORMS, STARTS
from padenet.keras import PAU, RPAU

BACKEND = keras.backend.backend()
pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras's own
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # Inductor's
]


def array(v):
    return keras.ops.convert_to_numpy(getattr(v, "value", v))


@pytest.fixture(autouse=True)
def fresh():
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


def some(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def expected(unit, x):
    return padenet.numpy.rational(
        x.astype(float),
        array(unit.a).astype(float),
        array(unit.b).astype(float),
        form=unit.form,
        q=unit.q,
        channel_dim=unit.channel_dim,
    )


def assert_close(got, want, roundings=64):
    """float32 within so many roundings of the largest."""
    got = np.asarray(got, float)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= roundings * 2.0**-24 * max(np.abs(want).max(), 1)


def test_the_backend_is_the_one_asked_for():
    assert os.environ["KERAS_BACKEND"] == BACKEND


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_values(form, groups):
    unit = PAU("gelu", form=form, groups=groups)
    x = some(4, 5, 6)
    x[0, 0, 0], x[1, 1, 1] = 1e30, -3e38
    y = array(unit(x))
    assert y.dtype == "float32" and np.isfinite(y).all()
    want = expected(unit, x)
    assert np.abs(y / want - 1)[np.abs(want) > 1].max() < 64 * 2.0**-24
    assert_close(y[2:], want[2:])


def test_weights_are_made_with_the_unit_and_counted():
    layer = layers.Dense(8, activation=PAU())
    assert len(layer.trainable_variables) == 2
    layer.build((None, 4))
    assert len(layer.trainable_variables) == 4
    assert sum(np.prod(v.shape) for v in layer.trainable_variables) == 4 * 8 + 8 + 10
    assert [tuple(v.shape) for v in PAU(groups=4).weights] == [(4, 6), (4, 4)]


def build(kind, activation):
    if kind == "sequential":
        return keras.Sequential(
            [keras.Input((6,)), layers.Dense(8, activation=activation()), layers.Dense(1)]
        )
    if kind == "functional":
        inputs = keras.Input((6,))
        h = activation()(layers.Dense(8)(inputs))
        return keras.Model(inputs, layers.Dense(1)(h))
    return Subclassed(activation())


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, unit, **options):
        super().__init__(**options)
        self.first, self.unit, self.last = layers.Dense(8), unit, layers.Dense(1)

    def call(self, x):
        return self.last(self.unit(self.first(x)))

    def get_config(self):
        return {"unit": keras.saving.serialize_keras_object(self.unit)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["unit"]))


@pytest.mark.parametrize("unit", [PAU, RPAU])
@pytest.mark.parametrize("kind", ["sequential", "functional", "subclassed"])
def test_models_train_and_are_saved_exactly(kind, unit, tmp_path):
    model = build(kind, lambda: unit("tanh", groups=2))
    model.compile("adam", "mse", jit_compile=BACKEND != "torch")
    x = some(48, 6)
    history = model.fit(x, x[:, :1], epochs=3, batch_size=24, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    (made,) = (v for v in model._flatten_layers() if isinstance(v, PAU))
    start = STARTS["tanh"]
    assert all(
        (array(c)[0] != np.float32(s)).any() for c, s in ((made.a, start.a), (made.b, start.b))
    )

    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for v, w in zip(model.weights, loaded.weights, strict=True):
        assert np.array_equal(array(v), array(w))
    assert np.array_equal(model.predict(x, verbose=0), loaded.predict(x, verbose=0))
    model.save_weights(tmp_path / "model.weights.h5")
    other = build(kind, lambda: unit("tanh", groups=2))
    other(x)
    other.load_weights(tmp_path / "model.weights.h5")
    assert np.array_equal(array(other(x)), array(model(x)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_the_compiled_step():
    """On JAX and TensorFlow the other tests compile too."""
    model = build("sequential", PAU)
    model.compile("adam", "mse", jit_compile=True)
    x = some(48, 6)
    losses = model.fit(x, x[:, :1], epochs=3, batch_size=24, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


POLICIES = ["mixed_bfloat16", "mixed_float16", "bfloat16"]
if BACKEND != "jax":  # which has no float64 unless it is told to
    POLICIES.append("float64")


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy):
    keras.config.set_dtype_policy(policy)
    unit = PAU("gelu")
    wide = {"bfloat16": "bfloat16", "float64": "float64"}.get(policy, "float32")
    assert {keras.backend.standardize_dtype(v.dtype) for v in unit.weights} == {wide}
    x = some(4, 6)
    y = unit(x)
    assert keras.backend.standardize_dtype(y.dtype) == unit.compute_dtype
    seen = array(keras.ops.cast(x, unit.compute_dtype)).astype(float)
    unit_in_roundings = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float64": 2.0**-50}
    off = np.abs(array(y).astype(float) - expected(unit, seen))
    assert off.max() <= 1.01 * unit_in_roundings[unit.compute_dtype] * 4
    net = build("sequential", PAU)
    net.compile("sgd", "mse", jit_compile=BACKEND != "torch" and policy != "float64")
    assert np.isfinite(net.fit(x, x[:, :1], verbose=0).history["loss"]).all()


CONFIGS = [
    (PAU, {}),
    (PAU, {"init": "gelu", "aim": "near", "groups": 3, "channel_dim": 1, "name": "act"}),
    (PAU, {"init": ([0.0, 1.0, 0.5], [0.1, 0.25]), "degrees": (2, 2), "q": 0.5}),
    (PAU, {"init": np.tanh, "form": "abs_terms"}),
    (RPAU, {"alpha": 0.1, "seed": 7, "form": "offset", "dtype": "mixed_bfloat16"}),
]


@pytest.mark.parametrize(("unit", "options"), CONFIGS)
def test_configurations_make_the_same_unit(unit, options):
    if callable(options.get("init")):
        pytest.importorskip("scipy")
    made = unit(**options)
    config = json.loads(json.dumps(made.get_config()))
    again = unit.from_config(config)
    assert again.get_config() == made.get_config()
    for v, w in zip(made.weights, again.weights, strict=True):
        assert np.array_equal(array(v), array(w))
    found = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(made))
    assert type(found) is unit and found.get_config() == made.get_config()


def test_noise_in_training_only():
    unit, plain = RPAU("gelu", alpha=0.1, seed=3), PAU("gelu")
    x = some(50, 4)
    assert np.array_equal(array(unit(x)), array(plain(x)))
    first, second = (array(unit(x, training=True)) for _ in range(2))
    assert (first != array(plain(x))).mean() > 0.9
    assert (first != second).mean() > 0.9
    again = RPAU("gelu", alpha=0.1, seed=3)
    assert np.array_equal(array(again(x, training=True)), first)
    assert np.array_equal(array(again(x, training=True)), second)
    still = RPAU("gelu", alpha=0.0)
    assert np.array_equal(array(still(x, training=True)), array(plain(x)))


def test_a_layer_passes_training_on():
    layer = layers.Dense(4, activation=RPAU(alpha=0.5, seed=1))
    x = some(8, 4)
    assert not np.array_equal(array(layer(x, training=True)), array(layer(x)))


def test_channels_first_and_unknown_batches():
    unit = PAU(groups=4, channel_dim=1)
    inputs = keras.Input((8, None, None))
    model = keras.Model(inputs, unit(inputs))
    assert model.output_shape == (None, 8, None, None)
    x = some(2, 8, 3, 5)
    assert_close(model.predict(x, verbose=0), expected(unit, x))


def test_masks_pass_through():
    model = keras.Sequential(
        [keras.Input((None,)), layers.Embedding(5, 4, mask_zero=True), PAU(), layers.LSTM(3)]
    )
    ids = np.array([[1, 2, 0], [3, 4, 0]])
    assert np.allclose(
        model.predict(ids, verbose=0), model.predict(ids[:, :2], verbose=0), atol=1e-6
    )


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"form": "save"}, ValueError, "unknown form 'save'. Did you mean 'safe'"),
        ({"init": "gleu"}, ValueError, "Did you mean 'gelu'"),
        ({"groups": 0}, ValueError, "groups=0 must be a whole number from 1 on"),
        ({"q": 2}, ValueError, "must be in"),
        ({"degrees": (2, 2), "init": ([1], [1])}, ValueError, "init has 1 numerator"),
        ({"init": ([1], [1]), "aim": "near"}, ValueError, "init is a pair. Leave it out"),
    ],
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        PAU(**options)


def test_bad_inputs():
    with pytest.raises(ValueError, match="groups=3 does not divide the 4 channels of x"):
        PAU(groups=3)(some(2, 4))
    with pytest.raises(ValueError, match="channel_dim=5 is not a dim of x"):
        PAU(groups=2, channel_dim=5)(some(2, 4))
    with pytest.raises(ValueError, match="alpha=2 must be in"):
        RPAU(alpha=2)
    x = keras.ops.convert_to_tensor(np.arange(3))
    a, b = (keras.ops.convert_to_tensor(np.float32(c)) for c in ([0, 1], [0.5]))
    with pytest.raises(TypeError, match=r"x has dtype .*int.*, padenet takes"):
        padenet.keras.rational(x, a, b)
    with pytest.raises(ValueError, match=r"coefficients must be a: \(m \+ 1,\)"):
        padenet.keras.rational(keras.ops.cast(x, "float32"), keras.ops.stack([a, a]), b)

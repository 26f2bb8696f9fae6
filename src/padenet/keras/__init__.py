"""The unit as a layer of Keras 3, on JAX, TensorFlow or PyTorch.

What is imported here registers the layers, so that ``keras.saving.load_model`` finds them.
"""

from padenet.keras.functional import randomized, rational
from padenet.keras.layers import PAU, RPAU

__all__ = ["PAU", "RPAU", "randomized", "rational"]

"""Names the types of numpy arrays. Shapes are stated in the docstrings of what takes the arrays."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

"""The executable spec: the whole path in plain NumPy float32, with the paper's letters and equation numbers.

Read it in this order: generator, rotations, activation, codes, families, ranking. The native core equals it bit for bit.
"""

from .activation import TANH_ERROR, tanh
from .codes import asymmetric, hamming, pack, unpack
from .families import (
    alignment,
    directions,
    faiss_rule,
    gain,
    norms,
    plane_weights,
    progressive,
    progressive_reconstruct,
    relaxed_error,
    simhash,
    superbit,
    superbit_reconstruct,
    superbit_scale,
    usr,
    usr_reconstruct,
    usr_scale,
)
from .generator import gaussians, signs, words
from .rotations import (
    DenseFrame,
    Frame,
    HadamardFrame,
    Rotation,
    analysis,
    fwht,
    gaussian_matrix,
    gram_schmidt,
    make_frame,
    svd_rotation,
    synthesis,
)

__all__ = [
    "TANH_ERROR",
    "DenseFrame",
    "Frame",
    "HadamardFrame",
    "Rotation",
    "alignment",
    "analysis",
    "asymmetric",
    "directions",
    "faiss_rule",
    "fwht",
    "gain",
    "gaussian_matrix",
    "gaussians",
    "gram_schmidt",
    "hamming",
    "make_frame",
    "norms",
    "pack",
    "plane_weights",
    "progressive",
    "progressive_reconstruct",
    "relaxed_error",
    "signs",
    "simhash",
    "superbit",
    "superbit_reconstruct",
    "superbit_scale",
    "svd_rotation",
    "synthesis",
    "tanh",
    "unpack",
    "usr",
    "usr_reconstruct",
    "usr_scale",
    "words",
]

"""The executable spec: the whole path of the data in plain NumPy float32, with the paper's letters and equations.

It imports NumPy and the standard library, and nothing else of this package. The native core equals it bit for bit; the
tests hold it to that. It is slow, and meant to be read. In this order, each module needs only those before it:

| module | what it says |
|---|---|
| `constants` | every number that was chosen |
| `vectors` | sums in a fixed order; norms, directions, distances |
| `kept_form` | vectors rounded to the small forms that an index can keep them in |
| `generator` | random words, signs and Gaussians, by address |
| `rotations` | random rotations, and the frame W of them |
| `activation` | tanh as a quotient of polynomials |
| `codes` | bits packed into bytes, and counted |
| `families` | simHash, Super-Bit, USR (the paper) and progressive codes, by their equations |
| `norm_grid` | the mean norm that sets the gain of USR |
| `ranking` | a query against codes, in whole numbers; true distances; the order of answers |
| `encoder` | a family with its parameters: a vector to its code, a query made ready |
| `allowing` | which way is taken when only some records may be found |
| `scan` | candidates from all codes |
| `tables` | candidates from hash tables |
| `pivots`, `pivot_search` | candidates from a partition by pivots |
| `graph`, `graph_search` | candidates from a graph |
| `chacha20`, `digest` | the digest of a set of records |
| `index` | an index over a plain dict: add, update, forget, search, digest |
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from .activation import tanh
    from .allowing import allowed_effort, direct_rows, fewer_than_chance, lies_elsewhere
    from .codes import asymmetric, hamming, pack, unpack, unpack_bits
    from .constants import TANH_ERROR
    from .digest import (
        code_record,
        configuration_json,
        digest_of_state,
        expand,
        multiset_state,
        record_keys,
        vector_record,
    )
    from .encoder import Encoder
    from .families import (
        alignment,
        faiss_rule,
        gain,
        lost_share,
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
    from .graph import EdgeCodes, Graph, GraphSettings, vector_hash
    from .graph_search import Walked, graph_candidates, graph_pool, walk
    from .index import Index
    from .norm_grid import mean_norm
    from .pivot_search import Found, PivotPlan, pivot_candidates, pivot_plan, search_pivots
    from .pivots import (
        PivotCells,
        Pivots,
        PivotSettings,
        build_pivots,
        default_pivot_key,
        is_pivot,
        is_sampled,
        pivot_key,
        pivot_limit,
        siphash,
    )
    from .ranking import Query, Records, answer, true_distances
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
    from .scan import ScanLimits, ScanPlan, scan_candidates, scan_limits, scan_plan, scan_survivors
    from .tables import (
        Probe,
        Tables,
        TableSettings,
        build_tables,
        filter_rank,
        flip_score,
        pass_filter,
        probes_for,
        probing,
        table_candidates,
        table_keys,
        table_signatures,
        table_survivors,
        table_values,
        table_weights,
        tables_frame,
    )
    from .vectors import directions, dot, norms, squared_distance

__all__ = [
    "TANH_ERROR",
    "DenseFrame",
    "EdgeCodes",
    "Encoder",
    "Found",
    "Frame",
    "Graph",
    "GraphSettings",
    "HadamardFrame",
    "Index",
    "PivotCells",
    "PivotPlan",
    "PivotSettings",
    "Pivots",
    "Probe",
    "Query",
    "Records",
    "Rotation",
    "ScanLimits",
    "ScanPlan",
    "TableSettings",
    "Tables",
    "Walked",
    "alignment",
    "allowed_effort",
    "analysis",
    "answer",
    "asymmetric",
    "build_pivots",
    "build_tables",
    "code_record",
    "configuration_json",
    "default_pivot_key",
    "digest_of_state",
    "direct_rows",
    "directions",
    "dot",
    "expand",
    "faiss_rule",
    "fewer_than_chance",
    "filter_rank",
    "flip_score",
    "fwht",
    "gain",
    "gaussian_matrix",
    "gaussians",
    "gram_schmidt",
    "graph_candidates",
    "graph_pool",
    "hamming",
    "is_pivot",
    "is_sampled",
    "lies_elsewhere",
    "lost_share",
    "make_frame",
    "mean_norm",
    "multiset_state",
    "norms",
    "pack",
    "pass_filter",
    "pivot_candidates",
    "pivot_key",
    "pivot_limit",
    "pivot_plan",
    "plane_weights",
    "probes_for",
    "probing",
    "progressive",
    "progressive_reconstruct",
    "record_keys",
    "relaxed_error",
    "scan_candidates",
    "scan_limits",
    "scan_plan",
    "scan_survivors",
    "search_pivots",
    "signs",
    "simhash",
    "siphash",
    "squared_distance",
    "superbit",
    "superbit_reconstruct",
    "superbit_scale",
    "svd_rotation",
    "synthesis",
    "table_candidates",
    "table_keys",
    "table_signatures",
    "table_survivors",
    "table_values",
    "table_weights",
    "tables_frame",
    "tanh",
    "true_distances",
    "unpack",
    "unpack_bits",
    "usr",
    "usr_reconstruct",
    "usr_scale",
    "vector_hash",
    "vector_record",
    "walk",
    "words",
]

#: Where each name is. The index asks for few of them, and late: all together would slow down every import of lethevec.
_WHERE = {
    "activation": "tanh",
    "allowing": "allowed_effort direct_rows fewer_than_chance lies_elsewhere",
    "codes": "asymmetric hamming pack unpack unpack_bits",
    "constants": "TANH_ERROR",
    "digest": "code_record configuration_json digest_of_state expand multiset_state record_keys vector_record",
    "encoder": "Encoder",
    "families": (
        "alignment faiss_rule gain lost_share plane_weights progressive progressive_reconstruct "
        "relaxed_error simhash superbit superbit_reconstruct superbit_scale usr usr_reconstruct "
        "usr_scale"
    ),
    "generator": "gaussians signs words",
    "graph": "EdgeCodes Graph GraphSettings vector_hash",
    "graph_search": "Walked graph_candidates graph_pool walk",
    "index": "Index",
    "norm_grid": "mean_norm",
    "pivot_search": "Found PivotPlan pivot_candidates pivot_plan search_pivots",
    "pivots": (
        "PivotCells Pivots PivotSettings build_pivots default_pivot_key is_pivot is_sampled pivot_key "
        "pivot_limit siphash"
    ),
    "ranking": "Query Records answer true_distances",
    "rotations": (
        "DenseFrame Frame HadamardFrame Rotation analysis fwht gaussian_matrix gram_schmidt make_frame "
        "svd_rotation synthesis"
    ),
    "scan": "ScanLimits ScanPlan scan_candidates scan_limits scan_plan scan_survivors",
    "tables": (
        "Probe Tables TableSettings build_tables filter_rank flip_score pass_filter probes_for probing "
        "table_candidates table_keys table_signatures table_survivors table_values table_weights "
        "tables_frame"
    ),
    "vectors": "directions dot norms squared_distance",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name in _MODULE_OF:
        import importlib

        found: object = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = found  # asked for once
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

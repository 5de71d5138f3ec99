"""Every number that was chosen, in one place and in the order of the data's path.

The other modules of the spec import their numbers from here. The native core has the same numbers under the same names,
and a test compares the two. What is fixed by a published algorithm (SplitMix64, SipHash, ChaCha20) stays with it.
"""

from __future__ import annotations

# --- Sums whose order is fixed ---------------------------------------------------------------------------------------

#: Partial sums of a float64 sum (norms, alignments) and of a float32 sum (distances).
LANES_FLOAT64 = 8
LANES_FLOAT32 = 16

# --- Random numbers --------------------------------------------------------------------------------------------------

#: Streams of the generator. Signs of rotations count up from 0, two for each round; dense rotations from STREAM_DENSE,
#: one for each. The first word of STREAM_TABLES is the seed of the tables' rotations; the first two of STREAM_PIVOTS
#: are the key that picks pivots.
STREAM_SIGNS = 0
STREAM_DENSE = 1 << 32
STREAM_GAUSSIAN = 2 << 32
STREAM_TABLES = 3 << 32
STREAM_PIVOTS = 1 << 41

# --- Hash families ---------------------------------------------------------------------------------------------------

#: Rounds of S_0, which mixes every coordinate with every other. A later S_i has one round: its input is mixed already.
FIRST_ROUNDS = 3

#: tanh(x) = x P(x^2)/Q(x^2) up to |x| = TANH_LIMIT; coefficients by ascending power; all of them are float32 numbers.
TANH_LIMIT = 7.0
TANH_P = tuple(map(float.fromhex, ("0x1.ffff7p-1", "0x1.f7e5bp-4", "0x1.2a72eap-9", "0x1.07bcb6p-18")))
TANH_Q = tuple(map(float.fromhex, ("0x1p+0", "0x1.d34adep-2", "0x1.593f0ap-6", "0x1.2a87cp-13")))
#: The largest difference from the true tanh.
TANH_ERROR = 1.25e-6

#: The weight of each plane of a progressive code relative to the plane before it.
FALLOFF = 0.6

# --- Small forms of vectors -------------------------------------------------------------------------------------------

#: The largest whole number of a vector that is kept as int8; the smallest scale; and the bits of a float32 that no
#: scale has.
INT8_LARGEST = 127
INT8_LEAST_SCALE = 2.0**-126
INT8_SCALE_CUT = 0xFF

# --- The gain of USR -------------------------------------------------------------------------------------------------

#: A bucket of norms is a float32's exponent and so many bits of its fraction.
NORM_FRACTION_BITS = 6
#: The grid that the mean norm is rounded to: its steps for each doubling, and its lowest step. Below 2^-59 the gain
#: stops growing, because float32 could not hold it.
GAIN_STEPS_PER_OCTAVE = 4
GAIN_LOWEST_STEP = -59 * GAIN_STEPS_PER_OCTAVE

# --- Only some records ------------------------------------------------------------------------------------------------

#: At effort 1, all of the rows that may be found are compared with the query, without a source, where there are no more
#: of them than this: a number, so many for each of the k neighbours, and one in so many of all records. A true distance
#: takes as long as 20 to 40 rows of a scan, whatever the dimension (measured).
DIRECT_ROWS, DIRECT_ROWS_PER_K, DIRECT_ROWS_ONE_IN = 10.0, 3.0, 20.0
#: Above that, a source is asked with so many times the effort. Where a filter removes what is near a query, what is
#: left lies further away and is harder to tell apart.
ALLOWED_EFFORT = 4.0
#: And a scan with so many times that: in a stage, no more of the k nearest may be lost than one in so many.
ALLOWED_SCAN_EFFORT = 4.0
#: Pivots see by themselves where more has to be looked at. They allow for larger errors, and look into so many times
#: more cells where their first cells show that what may be found lies elsewhere.
ALLOWED_ERRORS, ALLOWED_CELLS = 1.4, 4.0
#: Graph and tables look at all rows that may be found where, of the first rows that they meet, far fewer than the usual
#: share may be found: what may be found lies elsewhere then. In the graph, less than a part of the usual number; tables
#: and pivots meet more rows, and there it is so many times the usual error of such a number (its root) less.
ALLOWED_NEARBY = 0.5
ALLOWED_NEARBY_ERRORS = 2.0

# --- Scan ------------------------------------------------------------------------------------------------------------

#: The weights of CHUNK_BITS consecutive bits add up to at most CHUNK_WEIGHT (one byte), and all weights of the first
#: stage to at most FIRST_WEIGHT (two bytes). Later bits have weights of up to TAIL_WEIGHT.
CHUNK_BITS = 128
CHUNK_WEIGHT = 255
FIRST_WEIGHT = 65_535
TAIL_WEIGHT = 127
#: Where rounding made weights too heavy, their scale is multiplied by this until they fit.
SCALE_STEP = 0.99

#: The first stage looks at as many whole planes of a progressive code as have so many bits, and at one at the least.
FIRST_STAGE_BITS = 128
#: The records by which all are judged: the best by their first bits, a number and so many for each of the k neighbours.
SCAN_ROWS, SCAN_ROWS_PER_K = 10.0, 5.0
#: The share of the k nearest that may be lost at effort 1, in either stage, and the most that may be where too many
#: records go on otherwise; twice the effort halves both.
SCAN_MISSED, SCAN_MISSED_MOST = 0.04, 0.24
#: How often an error is larger than 0, 1/4, 1/2, ... times the usual one: the tail of the normal distribution.
NORMAL_TAIL = (
    0.5,
    0.401293674,
    0.308537539,
    0.226627352,
    0.158655254,
    0.105649774,
    0.0668072013,
    0.0400591569,
    0.0227501319,
    0.0122244727,
    0.00620966533,
    0.00297976324,
    0.00134989803,
    0.000577025042,
    0.000232629079,
    8.84172852e-05,
    3.16712418e-05,
    1.06885258e-05,
    3.39767312e-06,
    1.01708324e-06,
    2.86651572e-07,
)
#: Allowed errors are multiples of a part of the usual one, from the least on.
ERROR_STEP, LEAST_ERRORS = 0.0625, -1.0
#: From this effort on, a quarter more of the usual error is allowed for with each doubling of it, whatever is lost.
SURE_EFFORT = 64.0
#: Where nothing is known of errors (Hamming ranking), or codes are all there is, so many records go on at effort 1 by
#: the first bits: a share of the records, so many for each of the k neighbours, and a number; where these are all bits,
#: and where there are more. Where errors are known, more than so many are too many.
ONE_STAGE_SHARE, ONE_STAGE_PER_K, ONE_STAGE = 0.006, 10.0, 100.0
SURVIVORS_SHARE, SURVIVORS_PER_K, SURVIVORS = 0.008, 16.0, 256.0

# --- Tables ----------------------------------------------------------------------------------------------------------

#: Bits of a key and its signature together.
LOOKED_BITS = 128
#: The mean coordinate is taken off where there are so many dimensions or more.
CENTRED_FROM = 16
#: The whole weights of a query's coordinates add up to at most this in every table, so that estimates fit one byte.
TABLE_WEIGHT = 255
#: A search that may find at most so many records for each probe looks at all of them instead.
ROWS_PER_PROBE = 4
#: The most buckets that a search looks into for each probe.
BUCKETS_PER_PROBE = 2.0
#: The effort whose buckets the reference set is taken from: the least that a search looks into.
REFERENCE_EFFORT = 0.13
#: How many rows pass the estimates by key and signature at effort 1: a share of the rows that were looked at, and so
#: many for each of the k neighbours.
PASS_SHARE, PASS_PER_K = 0.003, 15.0
#: The reference set is one in so many of these, and at least so many for each table: so many for each of the k, and a
#: number.
TABLE_REFERENCE_ONE_IN, TABLE_REFERENCE_PER_K, TABLE_REFERENCE = 3.0, 4.0, 16.0
#: The place among the reference set's estimates by code that a candidate must reach at effort 1.
FILTER_PER_K, FILTER = 2.4, 12.0
#: A place so many times the size of the reference set lets every candidate pass.
FAR_BEYOND = 4.0

# --- Pivots ----------------------------------------------------------------------------------------------------------

#: Planes of the codes in cells, unless the index has more.
PLANES_IN_CELLS = 4
#: Exclusive-ored into the first word of the key ("sample" in ASCII), so that who is sampled is independent of who is a
#: pivot; and about one record in how many is sampled.
SAMPLE_TAG = 0x73616D706C650000
SAMPLE_RATE = 16
#: Where the size of cells is left open, sqrt(records/RECORDS_PER_SQUARE) records make a cell, and at least LEAST_CELL.
RECORDS_PER_SQUARE = 20
LEAST_CELL = 4
#: The most members of a cell whose mean is its origin. Of the n members of a cell, so many move the origin when they
#: come or go, and then n codes are made again: a change makes about so many codes again, however large the cell.
ORIGIN_MEMBERS = 8
#: A norm in [2^(E-1), 2^E) is divided into units of 2^(E-UNIT_BITS), and a coordinate has at most MOST_UNITS of them.
UNIT_BITS = 24
MOST_UNITS = 2.0**31
#: Means are compared with queries in whole numbers up to these.
MEAN_WEIGHT = 127.0
QUERY_WEIGHT = 63.0
#: How much of the variance of a cell, the mean square of the members' distances to their mean, counts where cells are
#: put in order. 0 orders them by the distance to the mean, 1 by the mean square of the distances to members. Fewest
#: rows have to be looked at between the two: 0.25 to 0.4 on GloVe and on SIFT, up to 0.25 on patches of photographs.
VARIANCE_SHARE = 0.25
#: The natural logarithm of 2: so much a doubling adds to natural logarithms.
LN2 = 0.6931471805599453
#: Under ip, how far beyond its mean the best member of a cell is taken to be, as a multiple of what is expected of the
#: largest of so many normal deviates: each of them has the variance of the cell divided by its dimensions.
BEYOND_MEAN = 1.5
#: Cells to visit at effort 1 unless a number is given: those that are not much worse than the last of the first cells.
#: Their key may be lower by so much of what lies between the distance of the middle row of the first cells and D. That
#: is how far a near row sticks out of its cell: the more, the more cells may have one.
CELLS_WITHIN = 0.6
#: And lower by so many times the usual error of a key, which is that of the rounded means.
CELL_ERRORS = 3.0
#: So many times the root of the number of cells at the least and at the most, and not fewer than a few.
LEAST_CELLS, LEAST_CELLS_PER_ROOT, MOST_CELLS_PER_ROOT = 8.0, 5.0, 15.0
#: The first cells are as many as it takes to see so many rows: a number, so many for each of the k neighbours, and one
#: in so many of all records, or the root of their number where that is less.
FIRST_ROWS, FIRST_ROWS_PER_K, FIRST_ROWS_ONE_IN = 100.0, 20.0, 512.0
#: Rows of the first cells whose codes are read in full: a number, and so many for each of the k neighbours.
LIMIT_ROWS, LIMIT_ROWS_PER_K = 10.0, 5.0
#: At effort 1, where no more rows than this may be found, all of them get true distances.
FEW_ROWS, FEW_ROWS_PER_K = 10.0, 3.0
#: How many times its usual error an estimate may be too large, up to effort 1, in either stage. Less effort means fewer
#: cells alone: to drop a row of a near cell costs more recall than to leave out a far cell.
FIRST_ERRORS, SECOND_ERRORS = 1.6, 1.8

# --- Graph -----------------------------------------------------------------------------------------------------------

#: The most neighbours that pruning and filling leave a vertex: those of a block.
DEGREE = 32
#: The root has an edge to every vertex of so low a rank that there are about so many of them, and at least half as
#: many: a search begins with those that are nearest to the query.
GRAPH_ENTRIES = 512
#: So many of the root's list, those with the best estimates, enter a search's pool at once.
GRAPH_STARTS = 8
#: Entries of a search's pool at effort 1: a number, and so many for each of the k neighbours.
GRAPH_POOL, GRAPH_POOL_PER_K = 32.0, 1.6
#: To look at a vertex and its neighbours takes as long as so many true distances. Where no more rows than that may be
#: found, all of them get true distances instead.
DISTANCES_PER_VERTEX = 4

# --- Digest ----------------------------------------------------------------------------------------------------------

#: Numbers of 16 bits that a record expands to.
DIGEST_LANES = 1024
#: What BLAKE2b is told that it is used for.
RECORD_PERSON = b"lethevec-record1"
DIGEST_PERSON = b"lethevec-digest1"
#: The first byte of an encoded record: with its vector, or with its code.
VECTOR_TAG = b"v"
CODE_TAG = b"c"

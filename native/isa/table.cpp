// Compiled once per instruction set: the table of its kernels.
#include "../kernels/kernels.h"
#include "../kernels/lanes.h"

#define LETHEVEC_TEXT_(name) #name
#define LETHEVEC_TEXT(name) LETHEVEC_TEXT_(name)

namespace lethevec::LETHEVEC_ISA_NS {

void project(const float*, int64_t, const float*, int64_t, Output, float*);
void superbit(const FrameView&, const float*, int64_t, Output, float*);
void usr(const FrameView&, float, int64_t, const float*, int64_t, Output, float*);
void progressive(const FrameView&, const float*, int64_t, const float*, int64_t, Output, float*);
void decode(const FrameView&, const float*, float, const uint8_t*, int64_t, float*, float*);
void norms(const float*, int64_t, int64_t, double*);
double code_sum(const uint8_t*, int64_t, const float*, int64_t);
int64_t scan(const ScanQuery&, KeyKind, const uint8_t*, const float*, const uint8_t*, const uint32_t*, int64_t, float, Found);
void block_keys(const ScanQuery&, KeyKind, const uint8_t* const*, const float* const*, int64_t, float*);
float largest(const float*, int64_t, int64_t);
void widen_tables(const uint8_t*, int64_t, uint8_t*);
void disagreements(const uint32_t* const*, int64_t, const uint32_t*, const uint8_t*, int64_t, uint32_t*, float*);
float dot(const float*, const float*, int64_t);
float squared_distance(const float*, const float*, int64_t);
void hamming(const uint64_t*, const uint64_t*, int64_t, int64_t, uint32_t*);
void hamming_scan(const uint32_t*, int64_t, int64_t, const uint32_t*, const uint32_t*, int64_t, const uint32_t*, HammingFound*);
void products(const float*, int64_t, int64_t, const float*, int64_t, float*);
void dots(const float*, int64_t, const float*, int64_t, float*);
void mean_keys(const MeanQuery&, const MeanView&, float*);
int64_t choose_cells(const float*, const uint32_t*, int64_t, int64_t, uint32_t*);
void sort_numbers(const uint64_t*, int64_t, uint64_t*);
int64_t scan_cells(const ScanQuery&, const CellPair*, int64_t, const CellLimit*, const uint32_t*, CellFound);
int64_t score_cells(const ScanQuery&, const CellPair*, int64_t, const CellLimit*, const uint32_t*, CellFound, float*);
int64_t keep_near(CellFound, const float*, int64_t, float);
void refine_cells(const CellTails&, const uint32_t* const*, const CellFound&, int64_t, float*);
int64_t scan_buckets(const ScanQuery*, int64_t, const BucketRun*, int64_t, int64_t, int32_t, BucketRows);
float greatest_size(const float*, int64_t);
int32_t whole_sizes(const float*, int64_t, double, int32_t*);
void sign_words(const float*, int64_t, uint32_t*);
void expand(const uint8_t*, uint16_t*);
void activate(const float*, int64_t, float*);

#if defined(LETHEVEC_ISA_AVX512)
constexpr auto WIDEN_TABLES = widen_tables;
#else
constexpr decltype(&widen_tables) WIDEN_TABLES = nullptr;
#endif

extern const Kernels kernels;
const Kernels kernels = {LETHEVEC_TEXT(LETHEVEC_ISA_NS),
                         LANES,
                         project,
                         superbit,
                         usr,
                         progressive,
                         decode,
                         norms,
                         code_sum,
                         scan,
                         block_keys,
                         largest,
                         WIDEN_TABLES,
                         disagreements,
                         dot,
                         squared_distance,
                         hamming,
                         hamming_scan,
                         products,
                         dots,
                         mean_keys,
                         choose_cells,
                         sort_numbers,
                         scan_cells,
                         score_cells,
                         keep_near,
                         refine_cells,
                         scan_buckets,
                         greatest_size,
                         whole_sizes,
                         sign_words,
                         expand,
                         activate};

}  // namespace lethevec::LETHEVEC_ISA_NS

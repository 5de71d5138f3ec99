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
int64_t scan(const ScanQuery&, KeyKind, const uint8_t*, const float*, const uint32_t*, int64_t, float, Found);
void disagreements(const uint32_t* const*, int64_t, const uint32_t*, const uint8_t*, int64_t, uint32_t*, float*);
float dot(const float*, const float*, int64_t);
float squared_distance(const float*, const float*, int64_t);
void hamming(const uint64_t*, const uint64_t*, int64_t, int64_t, uint32_t*);
void hamming_scan(const uint32_t*, int64_t, int64_t, const uint32_t*, const uint32_t*, int64_t, const uint32_t*, HammingFound*);
void products(const float*, int64_t, int64_t, const float*, int64_t, float*);
void mean_scores(const uint8_t*, int64_t, const int8_t*, int64_t, int32_t*);
int64_t choose_cells(const float*, const uint32_t*, int64_t, int64_t, uint16_t*, uint32_t*);
int64_t scan_cell(const ScanQuery&, const CellView&, const CellLimit&, CellEntry*);
int64_t scan_bucket(const ScanQuery&, const BucketView&, uint8_t, BucketFound);
void expand(const uint8_t*, uint16_t*);
void activate(const float*, int64_t, float*);

extern const Kernels kernels;
const Kernels kernels = {LETHEVEC_TEXT(LETHEVEC_ISA_NS),
                         LANES,
                         project,
                         superbit,
                         usr,
                         progressive,
                         decode,
                         norms,
                         scan,
                         disagreements,
                         dot,
                         squared_distance,
                         hamming,
                         hamming_scan,
                         products,
                         mean_scores,
                         choose_cells,
                         scan_cell,
                         scan_bucket,
                         expand,
                         activate};

}  // namespace lethevec::LETHEVEC_ISA_NS

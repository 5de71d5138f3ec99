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
void activate(const float*, int64_t, float*);

extern const Kernels kernels;
const Kernels kernels = {LETHEVEC_TEXT(LETHEVEC_ISA_NS), LANES, project, superbit, usr, progressive, decode, activate};

}  // namespace lethevec::LETHEVEC_ISA_NS

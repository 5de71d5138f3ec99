// Compiled once per instruction set: the table of its kernels.
#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/lanes.h"

#define LETHEVEC_TEXT_(name) #name
#define LETHEVEC_TEXT(name) LETHEVEC_TEXT_(name)

// Every kernel by its name. Its type is that of the pointer in `Kernels`; a definition of another type is not found by
// the linker.
// clang-format off
#define LETHEVEC_KERNELS(KERNEL) \
    KERNEL(project) KERNEL(superbit) KERNEL(usr) KERNEL(progressive) KERNEL(decode) KERNEL(norms) KERNEL(code_sum) \
    KERNEL(scan) KERNEL(block_keys) KERNEL(largest) KERNEL(widen_tables) KERNEL(disagreements) KERNEL(outline_products) KERNEL(dot) \
    KERNEL(squared_distance) KERNEL(squared_distances) KERNEL(edge_estimates) KERNEL(look_at_edges) KERNEL(hamming) KERNEL(hamming_scan) KERNEL(products) KERNEL(dots) KERNEL(mean_keys) \
    KERNEL(centre_bounds) KERNEL(first_within) KERNEL(least) \
    KERNEL(choose_cells) KERNEL(sort_numbers) KERNEL(scan_cells) KERNEL(score_cells) KERNEL(keep_near) \
    KERNEL(refine_cells) KERNEL(scan_buckets) KERNEL(greatest_size) KERNEL(whole_sizes) KERNEL(sign_words) KERNEL(lookup_tables) \
    KERNEL(keep_between8) KERNEL(keep_between16) KERNEL(keep_between32) KERNEL(keep_chosen8) KERNEL(expand) \
    KERNEL(activate)
// clang-format on

namespace lethevec::LETHEVEC_ISA_NS {

#define LETHEVEC_DECLARE(name) std::remove_pointer_t<decltype(Kernels::name)> name;
LETHEVEC_KERNELS(LETHEVEC_DECLARE)
#undef LETHEVEC_DECLARE

namespace {

constexpr Kernels filled() {
    Kernels table{};
    table.name = LETHEVEC_TEXT(LETHEVEC_ISA_NS);
    table.lanes = LANES;
#define LETHEVEC_FILL(name) table.name = name;
    LETHEVEC_KERNELS(LETHEVEC_FILL)
#undef LETHEVEC_FILL
#if !defined(LETHEVEC_ISA_AVX512)
    table.widen_tables = nullptr;  // nothing would look at them
#endif
    return table;
}

#define LETHEVEC_COUNT(name) +1
static_assert(sizeof(Kernels) == sizeof(void*) * (2 LETHEVEC_KERNELS(LETHEVEC_COUNT)),
              "a kernel is missing in the list");
#undef LETHEVEC_COUNT

}  // namespace

extern const Kernels kernels;
constexpr Kernels kernels = filled();

}  // namespace lethevec::LETHEVEC_ISA_NS

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bind/bind.h"
#include "hashing/hashing.h"
#include "index.h"
#include "parallel.h"
#include "sqlite/stored_vectors.h"

namespace lethevec {

namespace {

nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> copied(const std::vector<int64_t>& numbers) {
    auto* all = new std::vector<int64_t>(numbers);
    nb::capsule owner(all, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
    return nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>(all->data(), {all->size()}, owner);
}

// Not NaN, and neither too short (unless zero is allowed and they are) nor too long.
void expect_norms(const float* x, int64_t dim, int64_t n, double smallest, double largest, int64_t threads) {
    parallel_for(n, threads, 1024, [&](int64_t begin, int64_t end) {
        const auto [least, most] = norm_range(x + begin * dim, dim, end - begin);
        if (!(least >= smallest && most <= largest)) throw sqlite::Damaged("not a vector that an index takes");
    });
}

}  // namespace

void bind_stored(nb::module_& module) {
    nb::exception<sqlite::Damaged>(module, "DamagedPages");
    nb::class_<sqlite::StoredVectors>(module, "StoredVectors", "The vectors of a store, read from its pages.")
        .def(
            "__init__",
            [](sqlite::StoredVectors* self, int descriptor, int64_t page_size, int64_t pages, uint32_t vectors_root,
               uint32_t records_root, int64_t dim) {
                new (self) sqlite::StoredVectors({descriptor, page_size, pages}, vectors_root, records_root, dim);
            },
            "descriptor"_a, "page_size"_a, "pages"_a, "vectors_root"_a, "records_root"_a, "dim"_a)
        .def(
            "load",
            [](sqlite::StoredVectors& self, Index& index, int64_t rows, double smallest, double largest,
               int64_t threads) {
                int64_t known = 0;
                {
                    Unlocked released;
                    self.read(rows, threads);
                    const auto n = static_cast<int64_t>(self.numbers().size());
                    expect_norms(self.vectors().data(), index.dim(), n, smallest, largest, threads);
                    if (index.form() != VectorForm::float32 && index.form() != VectorForm::none) {
                        float* x = self.vectors().data();
                        parallel_for(n, threads, 1024, [&](int64_t begin, int64_t end) {
                            float* at = x + begin * index.dim();
                            round_to(index.form(), at, end - begin, index.dim(), at);
                        });
                        expect_norms(x, index.dim(), n, smallest, largest, threads);
                    }
                    try {
                        known = index.load(self.vectors().data(), self.numbers().data(), n, threads);
                    } catch (const IdRefused&) {
                        throw sqlite::Damaged("an id twice");
                    }
                }
                return std::make_tuple(copied(self.slots()), copied(self.numbers()), copied(self.bare_slots()),
                                       copied(self.bare_numbers()), self.last(), known);
            },
            "index"_a, "rows"_a, "smallest"_a, "largest"_a, "threads"_a,
            "Loads some records into an index. Their slots and numbers, the numbers of those without a vector, the "
            "last "
            "slot of all, and how many of them were in the index.");
}

}  // namespace lethevec

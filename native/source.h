// Where candidates come from, when not from a scan of all codes. Derived from the rows and told of every change, under the
// index's write lock; it must at all times equal what a build from scratch over the same records gives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "rows.h"

namespace lethevec {

// What a source did for a query: rows that it looked at, and those of them that it looked at again.
struct SourceWork {
    int64_t scanned = 0, refined = 0;
};

class Source {
public:
    virtual ~Source() = default;
    // Whether it has codes of its own and gives only rows that are worth their true distance. The index then keeps no codes.
    virtual bool ranks() const { return false; }
    // These rows were filled in and are to be found from now on; x has their vectors, (n, dim). Throws with nothing changed.
    // `progress`, if not empty, may be told of rows that are done, and may throw.
    virtual void add(const Rows& rows, const uint32_t* which, int64_t n, const float* x, int64_t threads,
                     const std::function<void(int64_t)>& progress) = 0;
    // This row is not to be found any more. Its number stays: it is about to be filled in anew.
    virtual void leave(const Rows& rows, uint32_t row) = 0;
    // The last row is about to take the number of `row`, which has left.
    virtual void renumber(const Rows& rows, uint32_t last, uint32_t row) = 0;
    // Rows to look at for a query, each once, at least `wanted` where there are as many; more effort only adds rows. The first of
    // them, up to ends[0], are a set of at least `wanted` that effort does not change, by which the others can be judged; there
    // are no ends where everything is given, or the source ranks. `masks` has the rows that may be found, a bit each, and
    // `allowed` counts them; it is empty where every row may be found.
    virtual SourceWork candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                                  const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                                  std::vector<size_t>& ends) const = 0;
    virtual int64_t bytes() const = 0;
    // A copy of all of its memory, in use or not. For tests.
    virtual void raw_memory(std::vector<uint8_t>& all) const = 0;
};

// What a source is made from.
class SourceSettings {
public:
    virtual ~SourceSettings() = default;
    virtual std::unique_ptr<Source> make() const = 0;
};

}  // namespace lethevec

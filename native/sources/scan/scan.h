// The candidate source "scan": the first bits of every record, and which records are worth another look.
//
// Its structure is the first part of every code, with the norms beside it where the metric needs them, interleaved in
// blocks. It lies in the rows and moves with them (rows/rows.h), so that a change of the rows is a change of the
// structure, and there is nothing else to keep.
#pragma once

#include "sources/source.h"

namespace lethevec {

struct ScanSettings final : SourceSettings {
    explicit ScanSettings(bool codes_alone = false) : codes_alone(codes_alone) {}
    bool codes_alone;  // vectors are not kept

    std::unique_ptr<Source> make() const override;
};

class Scan final : public Source {
public:
    explicit Scan(const ScanSettings& settings) : settings_(settings) {}

    Layout layout(const Encoder& encoder, Metric metric, bool hamming) const override;

    void add(const NewRows&, int64_t, const Progress&) override {}
    void leave(const Rows&, const uint32_t*, int64_t, int64_t, const Progress&) override {}
    size_t stack_of_leave() const override { return LITTLE_STACK; }
    bool changes_in_pieces() const override { return true; }
    void renumber(const Rows&, uint32_t, uint32_t) override {}

    using Source::candidates;
    SearchWork candidates(const Scope& scope, Sought& sought) const override;
    // Several queries share a pass: codes are read from memory once.
    int64_t queries_together(const Scope& scope) const override;
    SearchWork candidates(const Scope& scope, Sought* sought, int64_t n) const override;
    SearchWork everything(const Scope& scope, float within, Sought& sought) const override;

    int64_t bytes() const override { return 0; }
    void raw_memory(std::vector<uint8_t>&) const override {}

private:
    class Query;  // see query.h
    const ScanSettings settings_;
};

}  // namespace lethevec

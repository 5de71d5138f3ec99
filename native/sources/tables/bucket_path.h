// A query's way from bucket to bucket: in the order of probing, until it has looked at enough.
#pragma once

#include <cstdint>
#include <vector>

#include "sources/tables/buckets.h"
#include "sources/tables/probing.h"
#include "sources/tables/query.h"

namespace lethevec {

class BucketPath {
public:
    // What ends the way, or a part of it: whichever comes first.
    struct Limit {
        double buckets, rows;
    };

    // `values` has d values for each table. About `likely` buckets will be looked into.
    BucketPath(const std::vector<Buckets>& tables, const TableQuery& query, const float* values, int64_t d,
               int64_t key_bits, double likely)
        : tables_(tables), query_(query), probing_(values, d, static_cast<int64_t>(tables.size()), key_bits, likely) {}

    // Adds the runs of the next bucket, if there is one within the limit; there may be none in it.
    bool next(const Limit& limit, std::vector<BucketRun>& runs) {
        if (!(static_cast<double>(buckets_) < limit.buckets && static_cast<double>(rows_) < limit.rows)) return false;
        if (at_ == heads_ && !find_heads()) return false;
        const Probe& probe = probes_[at_++];
        const Buckets& table = tables_[probe.table];
        const Buckets::Head head = table.head(probe.key);
        ++buckets_;
        if (head.rows == 0) return true;
        rows_ += head.rows;
        const int32_t base = query_.least(probe);
        uint32_t rows = table.rows_in_first(head), left = head.rows;
        for (Buckets::Run b = head.first;; b = table.next_run(b), rows = static_cast<uint32_t>(table.run())) {
            const Buckets::View view = table.view(b);
            runs.push_back({view.signatures, view.rows, rows, probe.table, base});
            left -= rows;
            if (left == 0) return true;  // what the last run says of the next is not worth a visit
        }
    }

    int64_t buckets() const { return buckets_; }
    int64_t rows() const { return rows_; }

private:
    // What says where runs lie is asked for early, of so many buckets at once.
    static constexpr int64_t HEADS = 16;

    bool find_heads() {
        at_ = heads_ = 0;
        for (; heads_ < HEADS && probing_.next(probes_[heads_]); ++heads_)
            tables_[probes_[heads_].table].prefetch_head(probes_[heads_].key);
        for (int64_t i = 0; i < heads_; ++i) {
            const Buckets& table = tables_[probes_[i].table];
            const Buckets::Head& head = table.head(probes_[i].key);
            if (head.rows > table.run()) table.prefetch_next(head.first);
        }
        return heads_ > 0;
    }

    const std::vector<Buckets>& tables_;
    const TableQuery& query_;
    Probing probing_;
    Probe probes_[HEADS];
    int64_t at_ = 0, heads_ = 0;
    int64_t buckets_ = 0, rows_ = 0;  // that it came to
};

}  // namespace lethevec

#include "sources/scan/scan.h"

#include <algorithm>

#include "sources/scan/hamming.h"
#include "sources/scan/plan.h"
#include "sources/scan/query.h"

namespace lethevec {

namespace {

constexpr int64_t QUERIES_TOGETHER = 256, QUERIES_BY_WEIGHT = 32;

bool by_hamming(const Rows& rows) { return rows.layout().block_words > 0; }

}  // namespace

std::unique_ptr<Source> ScanSettings::make() const { return std::make_unique<Scan>(*this); }

Layout Scan::layout(const Encoder& encoder, Metric metric, bool hamming) const {
    Layout layout;
    layout.bits = encoder.bits;
    if (hamming) {
        layout.block_words = (encoder.bits + 31) / 32;
        return layout;
    }
    layout.first_bits = encoder.first_bits(settings_.codes_alone);
    layout.scan_bytes = (layout.first_bits + 7) / 8;
    layout.norm_classes = metric != Metric::cosine && layout.scan_bytes <= CHUNK_BYTES;
    layout.tail_words = (encoder.bits - layout.first_bits + 31) / 32;
    layout.has_factor = true;
    return layout;
}

int64_t Scan::queries_together(const Scope& scope) const {
    const bool staged = scope.rows.layout().tail_words > 0;
    return few_enough(by_hamming(scope.rows) ? QUERIES_TOGETHER : QUERIES_BY_WEIGHT,
                      scan_survivors(scope.allowed.shown(), scope.allowed.count(), scope.k, scope.effort, staged));
}

SearchWork Scan::candidates(const Scope& scope, Sought& sought) const {
    if (by_hamming(scope.rows)) return candidates(scope, &sought, 1);
    Query query(scope, sought);
    return query.find_nearest();
}

SearchWork Scan::candidates(const Scope& scope, Sought* sought, int64_t n) const {
    if (by_hamming(scope.rows)) return nearest_by_hamming(scope, sought, n);
    if (n == 1 || Query::keeps_scores(scope.rows, sought->query)) return Source::candidates(scope, sought, n);
    return Query::find_nearest(scope, sought, n);
}

SearchWork Scan::everything(const Scope& scope, float within, Sought& sought) const {
    if (by_hamming(scope.rows)) return within_hamming(scope, within, sought);
    Query query(scope, sought);
    return query.find_all();
}

}  // namespace lethevec

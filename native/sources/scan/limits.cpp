#include "sources/scan/limits.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lethevec {

namespace {

constexpr double ERROR_STEP = 0.0625, LEAST_ERRORS = -1.0;
// The tail of the normal distribution at 0, 1/4, 1/2, ...
constexpr double NORMAL_TAIL[] = {0.5,
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
                                  2.86651572e-07};
constexpr int64_t TAIL_PLACES = sizeof NORMAL_TAIL / sizeof *NORMAL_TAIL - 1;
constexpr int64_t STEPS =
    static_cast<int64_t>((0.25 * static_cast<double>(TAIL_PLACES) - LEAST_ERRORS) / ERROR_STEP + 0.5);

// How often an error is larger than so many times the usual one.
double exceeded(double errors) {
    const double place = std::fabs(errors) * 4.0;
    double tail = 0.0;
    if (place < static_cast<double>(TAIL_PLACES)) {
        const auto at = static_cast<int64_t>(place);
        tail = NORMAL_TAIL[at] + (place - static_cast<double>(at)) * (NORMAL_TAIL[at + 1] - NORMAL_TAIL[at]);
    }
    return errors >= 0.0 ? tail : 1.0 - tail;
}

// What is allowed for in a stage. `slack` is how much nearer than the last of them records are, in usual errors.
class Allowance {
public:
    Allowance(const std::vector<double>& ahead, double error) : slack_(ahead) {
        for (double& slack : slack_) slack = error > 0.0 ? slack / error : 0.0;
    }

    // How many of them are likely to be lost when so many times the usual error is allowed for.
    double lost(double errors) const {
        double number = 0.0;
        for (double slack : slack_) number = number + exceeded(errors + slack);
        return number;
    }

    // How many times its usual error an estimate may be wrong.
    double errors(double missed) const {
        const double most = missed * count();
        int64_t low = 0, high = STEPS;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (lost(LEAST_ERRORS + ERROR_STEP * static_cast<double>(middle)) <= most)
                high = middle;
            else
                low = middle + 1;
        }
        return LEAST_ERRORS + ERROR_STEP * static_cast<double>(low);
    }

    double count() const { return static_cast<double>(slack_.size()); }

private:
    std::vector<double> slack_;
};

// The key to reach in the first stage, and the share that a later stage may lose. `in_common` is what errors have.
template <class Key>
std::pair<float, double> least_key(const Key& key, const Allowance& allowance, double in_common, const ScanPlan& plan,
                                   const TooMany& too_many) {
    const double wanted = allowance.errors(plan.missed);
    if (plan.further > 0.0 || in_common < 0.0 || !too_many(key(wanted)))
        return {key(wanted + plan.further), plan.missed};
    const double least = allowance.errors(plan.most);
    if (too_many(key(least))) return {key(wanted), plan.missed};
    int64_t low = 0, high = std::llround((wanted - least) / ERROR_STEP);
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (!too_many(key(least + ERROR_STEP * static_cast<double>(middle))))
            low = middle;
        else
            high = middle - 1;
    }
    const double errors = least + ERROR_STEP * static_cast<double>(low);
    return {key(errors), std::max(plan.missed, allowance.lost(errors) / allowance.count())};
}

// The middle one, or 0 where it is above.
double in_common(std::vector<double>& errors) {
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    return std::min(0.0, *middle);
}

}  // namespace

ScanLimits scan_limits(const PreparedQuery& query, const FirstWeights& weights, int64_t first_bits,
                       std::vector<Judge>& judges, int64_t k, const ScanPlan& plan, const TooMany& too_many) {
    constexpr float LOWEST = -std::numeric_limits<float>::infinity();
    std::partial_sort(judges.begin(), judges.begin() + k, judges.end(), [](const Judge& a, const Judge& b) {
        return a.distance < b.distance || (a.distance == b.distance && a.norm < b.norm);
    });
    const double q = query.norm, D = static_cast<double>(judges[static_cast<size_t>(k - 1)].distance);
    const double unit = weights.unit, half = static_cast<double>(weights.view.half),
                 align = first_alignment(query, weights);
    const double first_error = query.first_error, code_error = query.code_error;
    const double rounding = unit * std::sqrt(static_cast<double>(first_bits) / 12.0);
    const double by_first = align > 0.0 ? (rounding / align) * (rounding / align) : 0.0, by_code = rounding * rounding;
    std::vector<double> ahead(static_cast<size_t>(k)), first_errors(judges.size()), errors(judges.size());
    if (query.kind == KEY_IP) {
        if (q == 0.0 || align <= 0.0) return {LOWEST, LOWEST, 0, 0.0f};
        const double wanted = -D / q;
        for (size_t i = 0; i < errors.size(); ++i) {
            const double away = static_cast<double>(judges[i].distance), size = static_cast<double>(judges[i].norm);
            errors[i] = size > 0.0 ? (static_cast<double>(judges[i].key) - -away / q) / size : 0.0;
            const double near = (size > 0.0 ? static_cast<double>(judges[i].first_key) / size : 0.0) * unit / align;
            first_errors[i] = near - (size > 0.0 ? -away / q / size : 0.0);
            if (i < ahead.size()) ahead[i] = size > 0.0 ? (-away / q - wanted) / size : 0.0;
        }
        const double first = std::sqrt(first_error * first_error + by_first);
        const double second = std::sqrt(code_error * code_error + by_code);
        const double allowed = Allowance(ahead, first).errors(plan.missed) + plan.further;
        const double raised = (allowed * first - in_common(first_errors)) * align / unit;
        const double lift = (Allowance(ahead, second).errors(plan.missed) + plan.further) * second - in_common(errors);
        return {static_cast<float>(wanted * align / unit), static_cast<float>(wanted),
                static_cast<int32_t>(std::floor(std::min(std::max(raised, -half), half))), static_cast<float>(lift)};
    }
    const bool cosine = query.kind == KEY_SCORE, one_plane = query.alignment == 0.0;
    const double cos = 1.0 - D;
    for (size_t i = 0; i < errors.size(); ++i) {
        const double away = static_cast<double>(judges[i].distance), key = static_cast<double>(judges[i].key);
        const double first_key = static_cast<double>(judges[i].first_key);
        errors[i] = cosine ? key - (1.0 - away) : key - (q * q - away * away);
        first_errors[i] =
            cosine ? (2.0 * first_key - half) * unit / align - (1.0 - away) : first_key - (q * q - away * away);
        if (i < ahead.size()) ahead[i] = cosine ? D - away : D * D - away * away;
    }
    const double first_off = in_common(first_errors), off = in_common(errors);
    if (cosine) {
        const double across = std::min(std::max(D * (2.0 - D), 0.0), 1.0), spread = one_plane ? across : 1.0;
        const double first = std::sqrt(first_error * first_error * spread + by_first * spread);
        const double second = std::sqrt(code_error * code_error * across + by_code);
        const auto key = [&](double allowed) {
            const double least = cos - allowed * first + first_off;
            return align > 0.0 ? static_cast<float>((least * align / unit + half) * 0.5) : LOWEST;
        };
        const auto [least, missed] = least_key(key, Allowance(ahead, first), first_off, plan, too_many);
        const double allowed = Allowance(ahead, second).errors(missed) + plan.further;
        return {least, static_cast<float>(cos - allowed * second + off), 0, 0.0f};
    }
    const double across = D * D, spread = one_plane ? across : across + q * q;
    const double first = 2.0 * q * std::sqrt(first_error * first_error * spread + by_first * spread);
    const double second = 2.0 * q * std::sqrt(code_error * code_error * across + by_code * (q * q));
    const double base = q * q - D * D;
    const auto key = [&](double allowed) { return static_cast<float>(base - allowed * first + first_off); };
    const auto [least, missed] = least_key(key, Allowance(ahead, first), first_off, plan, too_many);
    const double allowed = Allowance(ahead, second).errors(missed) + plan.further;
    return {least, static_cast<float>(base - allowed * second + off), 0, 0.0f};
}

}  // namespace lethevec

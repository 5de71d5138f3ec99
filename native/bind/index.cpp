#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>

#include "bind/bind.h"
#include "bind/matrix.h"
#include "bind/sources.h"
#include "bind/texts.h"
#include "digest.h"
#include "index.h"
#include "memory/wipe.h"
#include "memory/wiped.h"
#include "parallel.h"
#include "sources/scan/scan.h"

namespace lethevec {

namespace {

using Ids = Array<const int64_t, 1>;
using Vectors = Array<const float, 2>;
// Nothing, or why an id was refused and which.
using Refusal = std::optional<std::pair<std::string, int64_t>>;

template <class Work>
Refusal refusing(Work work, size_t stack = DEEP_STACK) {
    try {
        Unlocked released(stack);
        work();
        return std::nullopt;
    } catch (const IdRefused& refused) {
        const char* why[] = {"present", "absent", "repeated"};
        return std::make_pair(std::string(why[refused.why]), refused.id);
    }
}

using Report = std::optional<std::function<void(int64_t)>>;

// What a long call does now and then: it tells Python how far it is, and stops where a signal says so.
Progress reporting(const Report& report) {
    using Clock = std::chrono::steady_clock;
    static constexpr auto PAUSE = std::chrono::milliseconds(20);
    return [&report, last = Clock::now()](int64_t done) mutable {
        const auto now = Clock::now();
        if (!(report && done) && now - last < PAUSE) return;
        last = now;
        clear_registers();
        nb::gil_scoped_acquire held;
        if (report && done) (*report)(done);
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    };
}

// A list of ids, a set of rows, or None.
class Restriction {
public:
    explicit Restriction(nb::handle given) {
        static const int64_t none = 0;  // an empty list may be nowhere
        if (given.is_none()) return;
        if (nb::isinstance<SelectedRows>(given)) {
            allowed_.rows = nb::cast<const SelectedRows*>(given);
            return;
        }
        ids_ = nb::cast<Ids>(given, false);
        allowed_.ids = ids_->size() ? ids_->data() : &none;
        allowed_.n = rows(*ids_);
    }
    const AllowedIds& allowed() const { return allowed_; }

private:
    std::optional<Ids> ids_;
    AllowedIds allowed_;
};

nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> as_array(std::vector<int64_t>&& numbers) {
    auto* all = new std::vector<int64_t>(std::move(numbers));
    nb::capsule owner(all, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
    return nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>(all->data(), {all->size()}, owner);
}

std::tuple<int64_t, int64_t, int64_t, int64_t> as_tuple(const SearchWork& work) {
    return {work.scanned, work.refined, work.reranked, work.bytes_read};
}

VectorForm form_of(const std::string& name) {
    if (name == "none") return VectorForm::none;
    if (name == "float32") return VectorForm::float32;
    if (name == "float16") return VectorForm::float16;
    expect(name == "int8", "vectors: expected none, float32, float16 or int8");
    return VectorForm::int8;
}

std::shared_ptr<Encoder> basic(Family family, int64_t dim, int64_t bits) {
    auto encoder = std::make_shared<Encoder>();
    encoder->family = family;
    encoder->dim = dim;
    encoder->bits = bits;
    return encoder;
}

}  // namespace

void bind_index(nb::module_& module) {
    nb::class_<Encoder>(module, "Encoder", "A hash family as the index uses it.")
        .def_static("simhash",
                    [](std::shared_ptr<Projection> projection) {
                        auto encoder = basic(Family::simhash, projection->d(), projection->bits());
                        encoder->projection = projection;
                        return encoder;
                    })
        .def_static("superbit",
                    [](std::shared_ptr<Frame> frame, int64_t bits) {
                        expect(bits >= 1 && bits <= frame->m() * frame->d(), "bits: out of range");
                        auto encoder = basic(Family::superbit, frame->d(), bits);
                        encoder->frame = frame;
                        return encoder;
                    })
        .def_static("usr",
                    [](std::shared_ptr<Frame> frame, float entry_gain, int64_t steps, bool of_direction) {
                        auto encoder = basic(Family::usr, frame->d(), frame->m() * frame->d());
                        encoder->frame = frame;
                        encoder->entry_gain = entry_gain;
                        encoder->steps = steps;
                        encoder->of_direction = of_direction;
                        return encoder;
                    })
        .def_static("progressive", [](std::shared_ptr<Frame> frame, Array<const float, 1> weights, int64_t sweeps) {
            expect(rows(weights) == frame->m(), "weights: wrong shape");
            auto encoder = basic(Family::progressive, frame->d(), frame->m() * frame->d());
            encoder->frame = frame;
            encoder->weights.assign(weights.data(), weights.data() + rows(weights));
            encoder->sweeps = sweeps;
            return encoder;
        });

    nb::class_<SourceSettings>(module, "SourceSettings", "What a source of candidates is made from.");
    nb::class_<ScanSettings, SourceSettings>(module, "ScanSettings", "All codes are scanned.")
        .def(nb::init<bool>(), "codes_alone"_a);

    nb::class_<SelectedRows>(module, "SelectedRows", "The rows that a filter lets through.")
        .def("__len__", &SelectedRows::count);
    nb::exception<RowsMoved>(module, "RowsMoved");

    module.attr("FILES_OF_VECTORS") = FILES_OF_VECTORS;
    module.attr("FILE_HEAD") = FILE_HEAD;
    nb::class_<Index>(module, "Index", nb::is_weak_referenceable(), "Records in memory.")
        .def(
            "__init__",
            [](Index* self, std::shared_ptr<Encoder> encoder, const std::string& metric, bool hamming,
               const std::string& vectors, const SourceSettings& source, int descriptor, nb::bytes path) {
                const FileOfVectors file = {descriptor, std::string(path.c_str(), path.size()),
                                            [](const std::function<void()>& work) {
                                                const nb::gil_scoped_release released;
                                                work();
                                            }};
                new (self)
                    Index({metric_of(metric), hamming, form_of(vectors)}, std::move(encoder), source.make(), file);
            },
            "encoder"_a, "metric"_a, "hamming"_a, "vectors"_a, "source"_a, "descriptor"_a = -1,
            "path"_a = nb::bytes("", 0))
        .def("__len__", &Index::size, nb::call_guard<nb::gil_scoped_release>())  // sees no record
        .def(
            "add",
            [](Index& self, Vectors x, Ids ids, int64_t threads, const Report& progress) {
                expect(rows(x) == rows(ids), "ids: wrong shape");
                return refusing([&] { self.add(x.data(), ids.data(), rows(x), threads, reporting(progress)); }, STACK);
            },
            "x"_a.noconvert(), "ids"_a.noconvert(), "threads"_a, "progress"_a.none() = nb::none())
        .def(
            "update",
            [](Index& self, Vectors x, Ids ids, int64_t threads) {
                expect(rows(x) == rows(ids), "ids: wrong shape");
                return refusing([&] { self.update(x.data(), ids.data(), rows(x), threads, reporting({})); });
            },
            "x"_a.noconvert(), "ids"_a.noconvert(), "threads"_a)
        .def(
            "forget",
            [](Index& self, Ids ids, bool ignore_unknown, int64_t threads) {
                int64_t gone = 0;
                Refusal refusal = refusing(
                    [&] { gone = self.forget(ids.data(), rows(ids), ignore_unknown, threads, reporting({})); });
                return std::make_pair(gone, refusal);
            },
            "ids"_a.noconvert(), "ignore_unknown"_a, "threads"_a = 1)
        .def(
            "forget_one",
            [](Index& self, int64_t id) {
                Unlocked released(self.stack_of_forget());
                return self.forget(&id, 1, true) == 1;
            },
            "id"_a)
        .def(
            "add_codes",
            [](Index& self, Array<const uint8_t, 2> codes, Array<const float, 1> norms, Array<const float, 1> factors,
               Ids ids, int64_t threads, std::optional<Vectors> x) {
                expect(rows(codes) == rows(ids) && rows(norms) == rows(ids) && rows(factors) == rows(ids),
                       "wrong shape");
                expect(!x || rows(*x) == rows(ids), "x: wrong shape");
                const CodedRecords records = {ids.data(),   rows(ids),    x ? x->data() : nullptr,
                                              codes.data(), norms.data(), factors.data()};
                return refusing([&] { self.add_codes(records, threads); });
            },
            "codes"_a.noconvert(), "norms"_a.noconvert(), "factors"_a.noconvert(), "ids"_a.noconvert(), "threads"_a = 1,
            "x"_a.none() = nb::none())
        .def(
            "load",
            [](Index& self, Vectors x, Ids ids, int64_t threads) {
                expect(rows(x) == rows(ids) && columns(x) == self.dim(), "x, ids: wrong shape");
                int64_t known = 0;
                Refusal refusal = refusing([&] { known = self.load(x.data(), ids.data(), rows(x), threads); });
                return std::make_pair(known, refusal);
            },
            "x"_a.noconvert(), "ids"_a.noconvert(), "threads"_a,
            "Records that no search finds before `file_loaded`; how many were there already.")
        .def(
            "file_loaded",
            [](Index& self, std::optional<nb::bytes> image, std::optional<Array<const uint32_t, 1>> of, int64_t threads,
               const Report& progress) {
                expect(image.has_value() == of.has_value(), "image, rows: expected both or none");
                Image given;
                if (image)
                    given = {reinterpret_cast<const uint8_t*>(image->c_str()), image->size(), of->data(), rows(*of)};
                Unlocked released;
                return self.file_loaded(given, threads, reporting(progress));
            },
            "image"_a.none(), "rows"_a.none(), "threads"_a, "progress"_a.none() = nb::none(),
            "Files all records that were loaded, by an image of some rows if it is one; whether it is.")
        .def(
            "image",
            [](const Index& self, Ids ids, int64_t threads) {
                std::vector<uint8_t> made;
                {
                    Unlocked released;
                    made = self.image(ids.data(), rows(ids), threads);
                }
                return nb::bytes(reinterpret_cast<const char*>(made.data()), made.size());
            },
            "ids"_a.noconvert(), "threads"_a)
        .def(
            "reencode",
            [](Index& self, std::shared_ptr<Encoder> encoder, int64_t threads, const Report& progress) {
                Unlocked released;
                self.reencode(std::move(encoder), threads, reporting(progress));
            },
            "encoder"_a, "threads"_a, "progress"_a.none() = nb::none())
        .def(
            "search",
            [](const Index& self, const Matrix<const float>& queries, int64_t k, double effort, nb::handle allowed,
               int64_t threads, const Matrix<int64_t>& ids, const Matrix<float>& distances) {
                const Restriction restriction(allowed);
                expect(queries.columns == self.dim(), "queries: wrong shape");
                expect(ids.rows == queries.rows && ids.columns == k, "ids: wrong shape");
                expect(distances.rows == queries.rows && distances.columns == k, "distances: wrong shape");
                SearchWork work;
                {
                    Unlocked released(STACK);
                    work = self.search({queries.data, queries.rows, k, effort, restriction.allowed(), threads},
                                       {ids.data, distances.data});
                }
                return as_tuple(work);
            },
            "queries"_a, "k"_a, "effort"_a, "allowed"_a.none(), "threads"_a, "ids"_a, "distances"_a)
        .def(
            "search_radius",
            [](const Index& self, Array<const float, 1> query, float radius, nb::handle allowed) {
                const Restriction restriction(allowed);
                HitList hits;
                SearchWork work;
                {
                    Unlocked released(STACK);
                    work = self.search_radius(query.data(), radius, restriction.allowed(), hits);
                }
                std::vector<std::pair<float, int64_t>, WipingAllocator<std::pair<float, int64_t>>> found;
                found.reserve(hits.size());
                for (const Hit& hit : hits) found.emplace_back(hit.distance, hit.id);
                return std::make_pair(std::move(found), as_tuple(work));
            },
            "query"_a.noconvert(), "radius"_a, "allowed"_a.none())
        .def(
            "keep_fields",
            [](Index& self, std::optional<std::vector<std::string>> only) {
                Unlocked released;
                self.keep_fields(std::move(only));
            },
            "only"_a.none())
        .def(
            "set_fields",
            [](Index& self, Ids ids, nb::handle payloads, nb::handle subjects) {
                const TextList payload_texts(payloads, rows(ids)), subject_texts(subjects, rows(ids));
                Unlocked released;
                self.set_fields(ids.data(), rows(ids), {payload_texts.data(), subject_texts.data()});
            },
            "ids"_a.noconvert(), "payloads"_a.none(), "subjects"_a.none())
        .def(
            "select",
            [](const Index& self, const filters::Filter& filter, int64_t unsure_from) {
                std::vector<int64_t> unsure;
                SelectedRows found;
                {
                    Unlocked released;
                    found = self.select(filter.condition(), unsure_from, unsure);
                }
                return std::make_pair(std::move(found), as_array(std::move(unsure)));
            },
            "filter"_a, "unsure_from"_a, "The rows that pass, and the ids of those of which it cannot be told.")
        .def(
            "include",
            [](const Index& self, SelectedRows& rows_found, Ids ids) {
                Unlocked released;
                self.include(rows_found, ids.data(), rows(ids));
            },
            "rows"_a, "ids"_a.noconvert())
        .def(
            "ids_of",
            [](const Index& self, const SelectedRows& rows_found) {
                std::vector<int64_t> ids;
                {
                    Unlocked released;
                    ids = self.ids_of(rows_found);
                }
                return as_array(std::move(ids));
            },
            "rows"_a)
        .def(
            "are_selected",
            [](const Index& self, const SelectedRows& rows_found, Ids ids, Array<bool, 1> out) {
                expect(rows(ids) == rows(out), "out: wrong shape");
                Unlocked released;
                self.are_selected(rows_found, ids.data(), rows(ids), out.data());
            },
            "rows"_a, "ids"_a.noconvert(), "out"_a.noconvert())
        .def(
            "contains",
            [](const Index& self, Ids ids, Array<bool, 1> out) {
                expect(rows(ids) == rows(out), "out: wrong shape");
                Unlocked released;
                self.contains(ids.data(), rows(ids), out.data());
            },
            "ids"_a.noconvert(), "out"_a.noconvert())
        .def("ids",
             [](const Index& self) {
                 auto* all = new std::vector<int64_t>();
                 nb::capsule owner(all, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
                 {
                     Unlocked released;
                     *all = self.ids();
                 }
                 return nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>(all->data(), {all->size()}, owner);
             })
        .def(
            "get",
            [](const Index& self, Ids ids, Array<float, 2> out) {
                expect(rows(ids) == rows(out), "out: wrong shape");
                return refusing([&] { self.get(ids.data(), rows(ids), out.data()); }, STACK);
            },
            "ids"_a.noconvert(), "out"_a.noconvert())
        .def(
            "export_codes",
            [](const Index& self, Ids ids, Array<uint8_t, 2> codes, Array<float, 1> norms, Array<float, 1> factors) {
                expect(rows(codes) == rows(ids) && rows(norms) == rows(ids) && rows(factors) == rows(ids),
                       "wrong shape");
                return refusing(
                    [&] { self.export_codes(ids.data(), rows(ids), codes.data(), norms.data(), factors.data()); });
            },
            "ids"_a.noconvert(), "codes"_a.noconvert(), "norms"_a.noconvert(), "factors"_a.noconvert())
        .def(
            "digest_lanes",
            [](const Index& self, Array<uint16_t, 1> lanes, int64_t threads) {
                expect(rows(lanes) == digest::LANES, "lanes: wrong shape");
                Unlocked released;
                return self.digest_lanes(threads, lanes.data());
            },
            "lanes"_a.noconvert(), "threads"_a)
        .def("in_file", &Index::in_file, "Whether vectors lie in a file.")
        .def("file_path",
             [](const Index& self) {
                 const std::string path = self.file_path();
                 return nb::bytes(path.data(), path.size());
             })
        .def("parts_of_file", &Index::parts_of_file, "rewritten"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Offset and bytes of its parts: all, or those that were overwritten since this was last asked.")
        .def("id_at", &Index::id_at, "in_file"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("overwrite_file", &Index::overwrite_file, nb::call_guard<nb::gil_scoped_release>())
        .def("let_go_of_file", &Index::let_go_of_file, "In a forked child.")
        .def("bytes", [](const Index& self) {
            // Never wait for the index with the interpreter's lock held: re-encoding reports progress to Python.
            const Index::Bytes bytes = [&] {
                Unlocked released;
                return self.bytes();
            }();
            return std::make_tuple(bytes.vectors, bytes.codes, bytes.map, bytes.allocated);
        });

    module.def(
        "round_vectors",
        [](Vectors x, const std::string& form, Array<float, 2> out, int64_t threads) {
            expect(rows(x) == rows(out) && columns(x) == columns(out), "out: wrong shape");
            const VectorForm to = form_of(form);
            const int64_t d = columns(x);
            Unlocked released;
            parallel_for(rows(x), threads, 1024, [&](int64_t begin, int64_t end) {
                round_to(to, x.data() + begin * d, end - begin, d, out.data() + begin * d);
            });
        },
        "x"_a.noconvert(), "form"_a, "out"_a.noconvert(), "threads"_a,
        "The nearest vectors that a form can hold; what is beyond its range becomes infinite.");
    module.def(
        "pack_vectors",
        [](Vectors x, const std::string& form, Array<uint8_t, 2> out) {
            const VectorForm to = form_of(form);
            const int64_t d = columns(x);
            expect(rows(x) == rows(out) && columns(out) == form_bytes(to, d), "out: wrong shape");
            Unlocked released;
            for (int64_t i = 0; i < rows(x); ++i) pack(to, x.data() + i * d, d, out.data() + i * columns(out));
        },
        "x"_a.noconvert(), "form"_a, "out"_a.noconvert(), "The bytes of vectors that have been rounded to the form.");
    module.def(
        "unpack_vectors",
        [](Array<const uint8_t, 2> packed, const std::string& form, Array<float, 2> out) {
            const VectorForm from = form_of(form);
            const int64_t d = columns(out);
            expect(rows(packed) == rows(out) && columns(packed) == form_bytes(from, d), "packed: wrong shape");
            Unlocked released;
            for (int64_t i = 0; i < rows(out); ++i)
                unpack(from, packed.data() + i * columns(packed), d, out.data() + i * d);
        },
        "packed"_a.noconvert(), "form"_a, "out"_a.noconvert());
    module.def(
        "record_lanes",
        [](nb::bytes record, Array<uint16_t, 1> lanes) {
            expect(rows(lanes) == digest::LANES, "lanes: wrong shape");
            const ClearedRegisters cleared;
            digest::Sums sums;
            sums.add(reinterpret_cast<const uint8_t*>(record.c_str()), static_cast<int64_t>(record.size()));
            sums.add_to(lanes.data());
        },
        "record"_a, "lanes"_a.noconvert(), "Adds the expansion of one record to the lanes.");
    module.def(
        "kept_checks",
        [](nb::bytes context, Vectors x, Array<const uint8_t, 2> kept, Array<uint8_t, 2> checks, int64_t threads) {
            expect(rows(kept) == rows(x) && rows(checks) == rows(x) && columns(checks) == 8, "wrong shape");
            const auto head = static_cast<int64_t>(context.size());
            const int64_t vector = 4 * columns(x), code = columns(kept);
            const char* begin = context.c_str();
            Unlocked released;
            parallel_for(rows(x), threads, 256, [&](int64_t from, int64_t to) {
                Wiped<uint8_t> record(head + vector + code);
                std::memcpy(record.at(0), begin, static_cast<size_t>(head));
                for (int64_t i = from; i < to; ++i) {
                    std::memcpy(record.at(head), x.data() + i * columns(x), static_cast<size_t>(vector));
                    std::memcpy(record.at(head + vector), kept.data() + i * code, static_cast<size_t>(code));
                    digest::kept_check(record.at(0), head + vector + code, checks.data() + i * 8);
                }
            });
        },
        "context"_a, "x"_a.noconvert(), "kept"_a.noconvert(), "checks"_a.noconvert(), "threads"_a,
        "Eight bytes for each row: a hash of context, vector and what is kept of its code.");
}

}  // namespace lethevec

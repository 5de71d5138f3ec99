// What the bindings of all sources share.
#pragma once

#include <string>

#include "bind/bind.h"
#include "index.h"
#include "sources/graph/graph.h"
#include "sources/pivots/pivots.h"
#include "sources/tables/tables.h"

namespace lethevec {

inline Metric metric_of(const std::string& name) {
    return name == "cosine" ? Metric::cosine : name == "l2" ? Metric::l2 : Metric::ip;
}

// The source of an index as what it is.
template <class Kind>
const Kind& source_of(const Source& source, const char* refusal) {
    const auto* kind = dynamic_cast<const Kind*>(&source);
    expect(kind != nullptr, refusal);
    return *kind;
}

inline const Pivots& pivots_of(const Source& source) {
    return source_of<Pivots>(source, "index: its source is not pivots");
}

inline const Graph& graph_of(const Source& source) {
    return source_of<Graph>(source, "index: its source is not a graph");
}

inline const Tables& tables_of(const Source& source) {
    return source_of<Tables>(source, "index: its source is not tables");
}

}  // namespace lethevec

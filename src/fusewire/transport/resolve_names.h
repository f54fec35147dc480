// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a host name becomes addresses; a program may bring its own way.
// Home: a thread of the resolver's own. Owns: nothing. Fails: with a Status, which becomes the caller's.
#ifndef FUSEWIRE_TRANSPORT_RESOLVE_NAMES_H_
#define FUSEWIRE_TRANSPORT_RESOLVE_NAMES_H_

#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"

namespace fusewire {
namespace transport {

using Names = Result<std::vector<std::string>>;
// Turns a host name into numeric addresses, and may block: it is called on a thread of its own.
using ResolveNames = UniqueFunction<Names(const std::string& host)>;

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_RESOLVE_NAMES_H_

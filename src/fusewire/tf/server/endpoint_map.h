// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// .endpoint_map: an optional file that sets data ports by hand. Whoever can write it decides where data goes, so it is
// read only if that is nobody but this process' user or root.
// Home: any thread. Fails: never; a file that is left out is logged, with the reason.
#pragma once

#include <map>
#include <string>

namespace fusewire::tf {

// gRPC address -> data address, of the file in `folder` ("": the working directory); empty without one.
std::map<std::string, std::string> ReadEndpointMap(const std::string& folder);

// One "host:port=host:port" a line; blank lines and lines that begin with # are ignored. *bad names malformed lines.
std::map<std::string, std::string> ParseEndpointMap(const std::string& text, std::string* bad);

}  // namespace fusewire::tf

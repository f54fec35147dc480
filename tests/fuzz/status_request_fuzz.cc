// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := bytes of a connection to the status port
// What a stranger may send: it is read or refused with a reason, by what the standard says about it; and what is read
// never passes a check of access that needs a secret.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fusewire/base/check.h"
#include "fusewire/observe/access.h"
#include "fusewire/observe/request.h"
#include "fusewire/observe/watch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fusewire::observe;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Request request;
  const Refusal refusal = ReadRequest(bytes, &request);
  FUSEWIRE_CHECK((refusal.status == 0) == refusal.reason.empty());
  if (refusal.status == 0) {
    FUSEWIRE_CHECK(IsComplete(bytes));
    FUSEWIRE_CHECK(request.target.front() == '/');
    FUSEWIRE_CHECK(request.target.size() <= kTargetBytesMax);
    FUSEWIRE_CHECK(request.target == request.path + (request.query.empty() ? "" : "?" + request.query) ||
                   request.target == request.path + "?");
    (void)ParameterOf(request.query, "after_ns");
    const auto breaks = [](char letter) { return letter == '\r' || letter == '\n'; };
    for (const std::string* text : {&request.target, &request.host, &request.authorization})
      FUSEWIRE_CHECK(std::none_of(text->begin(), text->end(), breaks));
    constexpr int64_t kNowMs = 1'800'000'000'000;
    const Here here{"10.0.0.7:9477", {}};
    FUSEWIRE_CHECK(Access("a secret that nobody guesses", 0).Check(request, here, kNowMs).status == 401);
    (void)Access("", 0).Check(request, here, kNowMs);
    const std::string place = PlaceOf(request.host);  // again, it is the same
    FUSEWIRE_CHECK(PlaceOf(place) == place);
  } else {
    FUSEWIRE_CHECK(refusal.status >= 400 && refusal.status < 600);
  }
  (void)ReadPlace(std::string(bytes.substr(0, 100)), "");
  return 0;
}

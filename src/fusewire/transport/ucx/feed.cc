// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/feed.h"

#include <algorithm>

#include "fusewire/base/check.h"
#include "fusewire/transport/reading.h"

namespace fusewire::transport {
namespace {

void FeedPiece(ConnectionHandler* handler, const bool* closed, ConstBytes data) {
  while (!data.empty() && !*closed) {
    Bytes into[kLandingPartsMax];
    const size_t parts = handler->Landing(into, kLandingPartsMax);
    FUSEWIRE_DCHECK(parts <= kLandingPartsMax);
    const size_t ahead_max = std::min(handler->LookAhead(), sizeof(look_ahead));
    size_t landed = 0, landing = 0;
    for (size_t i = 0; i < parts; ++i) {
      const size_t piece = std::min(into[i].size, data.size);
      CopyBytes(into[i].Sub(0, piece), data.Sub(0, piece));
      data = data.From(piece);
      landed += piece;
      landing += into[i].size;
    }
    FUSEWIRE_CHECK(landing + ahead_max > 0);
    if (landed > 0) handler->OnLanded(landed);
    const size_t ahead = std::min(ahead_max, data.size);
    if (*closed || ahead == 0) continue;
    CopyBytes(Bytes(look_ahead, ahead), data.Sub(0, ahead));
    data = data.From(ahead);
    handler->OnBytes(ConstBytes(look_ahead, ahead));
  }
}

}  // namespace

// In pieces that are no large copies.
void Feed(ConnectionHandler* handler, const bool* closed, ConstBytes data) {
  FUSEWIRE_DCHECK(handler != nullptr);
  while (!data.empty() && !*closed) {
    const ConstBytes piece = data.Sub(0, std::min(data.size, kCopyBytesMax - 1));
    FeedPiece(handler, closed, piece);
    data = data.From(piece.size);
  }
}

}  // namespace fusewire::transport

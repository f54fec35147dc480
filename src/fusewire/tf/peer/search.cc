// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/search.h"

#include <utility>

#include <tensorflow/core/platform/env.h>
#include "fusewire/base/check.h"

namespace fusewire::tf {

void Search::Begin(const std::function<void(Routed)>& ask) {
  FUSEWIRE_DCHECK(ask != nullptr);
  if (status().ok())
    ask([self = shared_from_this()](const TfStatus& status, ChannelPtr channel) {
      self->End(status, std::move(channel));
    });
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(!is_waiting_);  // Begin comes once
    is_waiting_ = true;
    if (why_.ok()) return;
  }
  End(TfStatus(), nullptr);
}

void Search::GiveUp(const TfStatus& why) {
  FUSEWIRE_DCHECK(!why.ok());
  {
    MutexLock lock(mutex_);
    if (!why_.ok()) return;
    why_ = why;
    if (!is_waiting_) return;  // Begin ends it
  }
  tensorflow::Env::Default()->SchedClosure([self = shared_from_this()] { self->End(TfStatus(), nullptr); });
}

TfStatus Search::status() {
  MutexLock lock(mutex_);
  return why_;
}

void Search::End(const TfStatus& status, ChannelPtr channel) {
  Routed found;
  TfStatus why;
  {
    MutexLock lock(mutex_);
    found.swap(found_);
    why = why_;
  }
  if (found == nullptr) return;
  if (why.ok()) {
    found(status, std::move(channel));
  } else {
    found(why, nullptr);
  }
}

}  // namespace fusewire::tf

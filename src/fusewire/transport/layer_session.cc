// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/layer_session.h"

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire::transport {

namespace {

// A connection that says little keeps its memory for the next time. The memory of bulk is shared by the connections of
// a thread: thousands of them must not each keep their own, and allocating it anew costs more than the work itself.
constexpr size_t kKeptBytes = 32 * 1024;
thread_local std::string spare;

}  // namespace

void Session::Feed(ConstBytes come) {
  FUSEWIRE_DCHECK(fed_.empty());
  fed_ = come;
}

void Session::KeepRest() {
  rest_.erase(0, rest_read_);
  rest_read_ = 0;
  rest_.append(reinterpret_cast<const char*>(fed_.data), fed_.size);
  fed_ = ConstBytes();
}

ConstBytes Session::out() {
  lent_ = has_out();
  return ConstBytes(out_).From(sent_);
}

void Session::Sent(size_t bytes) {
  FUSEWIRE_CHECK(bytes <= out_.size() - sent_);
  sent_ += bytes;
  if (sent_ < out_.size()) return;
  sent_ = 0;
  out_.clear();
  lent_ = false;
  if (out_.capacity() > kKeptBytes) {
    if (spare.capacity() < out_.capacity()) spare.swap(out_);
    std::string().swap(out_);
  }
  if (!waiting_.empty()) out_.swap(waiting_);
}

void Session::Prepare(size_t bytes) {
  if (lent_ || bytes <= kKeptBytes || out_.capacity() - out_.size() >= bytes) return;
  if (out_.empty() && spare.capacity() > out_.capacity()) spare.swap(out_);
  out_.reserve(out_.size() + bytes);
}

size_t Session::Take(Bytes into) {
  const ConstBytes rest = ConstBytes(rest_).From(rest_read_);
  const size_t first = std::min(rest.size, into.size);
  CopyBytes(into, rest.Sub(0, first));
  rest_read_ += first;
  const size_t second = std::min(fed_.size, into.size - first);
  CopyBytes(into.From(first), fed_.Sub(0, second));
  fed_ = fed_.From(second);
  return first + second;
}

ConstBytes Session::Peek(size_t bytes) {
  const size_t kept = rest_.size() - rest_read_;
  if (kept == 0) return fed_.size < bytes ? ConstBytes() : fed_.Sub(0, bytes);
  if (kept < bytes) {
    const size_t missing = bytes - kept;
    if (fed_.size < missing) return ConstBytes();
    rest_.append(reinterpret_cast<const char*>(fed_.data), missing);
    fed_ = fed_.From(missing);
  }
  return ConstBytes(rest_).Sub(rest_read_, bytes);
}

void Session::Drop(size_t bytes) {
  FUSEWIRE_DCHECK(bytes <= rest_.size() - rest_read_ + fed_.size);
  const size_t kept = std::min(bytes, rest_.size() - rest_read_);
  rest_read_ += kept;
  fed_ = fed_.From(bytes - kept);
}

void Session::Put(ConstBytes bytes) {
  (lent_ ? waiting_ : out_).append(reinterpret_cast<const char*>(bytes.data), bytes.size);
}

}  // namespace fusewire::transport

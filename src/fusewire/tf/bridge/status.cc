// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/status.h"

#include <absl/strings/cord.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/heads/receives.h"

namespace fusewire::tf {
namespace {

static_assert(kStatusCodeMax == static_cast<uint64_t>(absl::StatusCode::kUnauthenticated));

constexpr absl::string_view kFromTarget = "\nAdditional GRPC error information from remote target ";

TfStatus WrongStatus(const std::string& what) {
  return absl::DataLossError(absl::StrCat("a peer sent a status that cannot be read: ", what));
}

absl::StatusCode CodeOf(Code code) {
  switch (code) {
    case Code::kOk: return absl::StatusCode::kOk;
    case Code::kInvalid: return absl::StatusCode::kInvalidArgument;
    case Code::kTimeout: return absl::StatusCode::kDeadlineExceeded;
    case Code::kCancelled: return absl::StatusCode::kCancelled;
    case Code::kUnavailable:
    case Code::kOverloaded:
    case Code::kCorrupt:  // the pipe is closed: to a caller that waits, the peer is gone
    case Code::kRefused: return absl::StatusCode::kUnavailable;
    case Code::kApplication:
    case Code::kInternal: break;
  }
  return absl::StatusCode::kInternal;
}

Code CodeFrom(absl::StatusCode code) {
  for (const Code ours : {Code::kOk, Code::kInvalid, Code::kTimeout, Code::kUnavailable, Code::kInternal}) {
    if (CodeOf(ours) == code) return ours;
  }
  return Code::kCancelled;
}

}  // namespace

Status FromTf(const TfStatus& status) { return Status(CodeFrom(status.code()), std::string(status.message())); }

TfStatus ToTf(const Status& status) {
  if (status.ok()) return TfStatus();
  // Those of ours that say what to do name the page that says more; what TensorFlow says about an op does not.
  return TfStatus(CodeOf(status.code()), status.next().empty() ? status.ToString() : status.Explained());
}

TfStatus WithTarget(const TfStatus& status, const std::string& target, const char* method) {
  if (status.ok()) return status;
  TfStatus told(status.code(),
                absl::StrCat(status.message(), kFromTarget, target, " while calling /tensorflow.WorkerService/", method,
                             ":\n:", status.message()));
  status.ForEachPayload([&told](absl::string_view url, const absl::Cord& value) { told.SetPayload(url, value); });
  return told;
}

bool IsLostTask(const TfStatus& status) {
  return absl::IsUnavailable(status) && absl::StrContains(status.message(), kFromTarget);
}

bool IsLost(const Status& status) {
  switch (status.code()) {
    case Code::kUnavailable:
    case Code::kCorrupt:
    case Code::kRefused: return true;
    default: return false;
  }
}

void AppendTfStatus(const TfStatus& status, std::string* out) {
  AppendVarint(out, static_cast<uint64_t>(status.code()));
  if (status.ok()) return;
  AppendText(out, status.message().data(), status.message().size());
  std::string payloads;
  uint64_t count = 0;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    if (count == kStatusPayloadsMax) return;
    ++count;
    AppendText(&payloads, url.data(), url.size());
    AppendText(&payloads, std::string(value));
  });
  AppendVarint(out, count);
  out->append(payloads);
}

TfStatus ReadTfStatus(VarReader* reader, TfStatus* out) {
  StatusHead head;
  const Status read = DecodeStatusHead(reader, &head);
  if (!read.ok()) return WrongStatus(read.cause());
  if (head.code == 0) {
    *out = TfStatus();
    return TfStatus();
  }
  TfStatus status(static_cast<absl::StatusCode>(head.code), View(head.message));
  for (const auto& [url, value] : head.payloads) status.SetPayload(View(url), absl::Cord(View(value)));
  FUSEWIRE_DCHECK(!status.ok());
  *out = status;
  return TfStatus();
}

}  // namespace fusewire::tf

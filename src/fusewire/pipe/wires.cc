// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/wires.h"

#include <utility>

#include "fusewire/transport/nearest/nearest.h"
#include "fusewire/transport/shm/shm.h"
#include "fusewire/transport/ucx/ucx.h"
#include "fusewire/transport/uring/uring.h"

namespace fusewire {
namespace pipe {
namespace {

struct Named {
  std::string_view name;
  Wire wire;
};

constexpr Named kWires[] = {{"auto", Wire::kAuto}, {"tcp", Wire::kTcp}, {"uring", Wire::kUring},
                            {"shm", Wire::kShm},   {"ucx", Wire::kUcx}, {"rdma", Wire::kUcx}};

}  // namespace

bool WireOf(std::string_view text, Wire* wire) {
  for (const Named& named : kWires) {
    if (named.name != text) continue;
    *wire = named.wire;
    return true;
  }
  return false;
}

WireTrial TryWire(Wire wire) {
  switch (wire) {
    case Wire::kTcp: return {Status::Ok(), "reaches every host"};
    case Wire::kUring: return {transport::TryUring(), "TCP by io_uring"};
    case Wire::kShm:
      if (transport::MayLend()) return {Status::Ok(), "a large tensor is copied once"};
      return {Status::Ok(), "a large tensor is copied twice: this process may not read another's memory"};
    case Wire::kAuto:
    case Wire::kUcx: break;
  }
  const transport::UcxDescription ucx = transport::DescribeUcx({});
  const std::string devices = ucx.rdma_devices.empty() ? "no RDMA device is up" : "RDMA devices " + ucx.rdma_devices;
  if (!ucx.loaded) return {Status::Unavailable(ucx.why_not), devices};
  return {Status::Ok(), "UCX " + ucx.version + ", " + devices};
}

std::unique_ptr<transport::Transport> MakeTransport(Wire wire, transport::TcpOptions tcp) {
  if (wire == Wire::kShm) return transport::MakeShm({});
  if (wire == Wire::kUring) tcp.drive = transport::DriveByUring();
  if (wire == Wire::kTcp || wire == Wire::kUring || (wire == Wire::kAuto && tcp.resolve)) {
    return transport::MakeTcp(std::move(tcp));
  }
  transport::UcxOptions ucx;
  ucx.always = wire == Wire::kUcx;
  auto far = transport::MakeUcx(transport::MakeTcp(std::move(tcp)), std::move(ucx));
  if (wire == Wire::kUcx) return far;
  return transport::MakeNearest(transport::MakeShm({}), std::move(far));
}

}  // namespace pipe
}  // namespace fusewire

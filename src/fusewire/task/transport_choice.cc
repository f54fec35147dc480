// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/transport_choice.h"

#include <utility>

#include "fusewire/transport/transports.h"

namespace fusewire::task {
namespace {

struct Named {
  std::string_view name;
  TransportChoice choice;
};

constexpr Named kChoices[] = {{"auto", TransportChoice::kAuto},
                              {"tcp", TransportChoice::kTcp},
                              {"shm", TransportChoice::kShm},
                              {"ucx", TransportChoice::kUcx},
                              {"rdma", TransportChoice::kUcx}};

using Made = Result<std::unique_ptr<transport::Transport>>;

Made MakeProtected(TransportChoice choice, transport::TcpOptions tcp, transport::Protection protection) {
  if (choice == TransportChoice::kUcx) {
    return Status::Invalid("the wire is ucx, which carries neither TLS nor checksums of ours")
        .Next("unset FUSEWIRE_TRANSPORT; or trust the RDMA network: unset FUSEWIRE_TLS_CERT and FUSEWIRE_CHECKSUM");
  }
  const bool may_be_near = choice == TransportChoice::kAuto && !tcp.resolve;
  Made far = transport::MakeTcp(std::move(tcp));
  if (!protection.tls.certificate.empty()) {
    far = transport::MakeTls(std::move(far).value(), std::move(protection.tls));
  } else {
    far = transport::MakeChecksum(std::move(far).value());
  }
  if (!far.ok() || !may_be_near) return far;
  return transport::MakeNearest(transport::MakeShm(), std::move(far).value());
}

}  // namespace

bool TransportChoiceOf(std::string_view text, TransportChoice* choice) {
  for (const Named& named : kChoices) {
    if (named.name != text) continue;
    *choice = named.choice;
    return true;
  }
  return false;
}

TransportTrial TryTransport(TransportChoice choice) {
  switch (choice) {
    case TransportChoice::kTcp: return {Status::Ok(), "reaches every host"};
    case TransportChoice::kShm:
      if (transport::MayLend()) return {Status::Ok(), "a large tensor is copied once"};
      return {Status::Ok(), "a large tensor is copied twice: this process may not read another's memory"};
    case TransportChoice::kAuto:
    case TransportChoice::kUcx: break;
  }
  const transport::UcxDescription ucx = transport::DescribeUcx({});
  const std::string devices = ucx.rdma_devices.empty() ? "no RDMA device is up" : "RDMA devices " + ucx.rdma_devices;
  if (!ucx.loaded) return {Status::Unavailable(ucx.why_not), devices};
  return {Status::Ok(), "UCX " + ucx.version + ", " + devices};
}

Made MakeTransport(TransportChoice choice, transport::TcpOptions tcp, transport::Protection protection) {
  const transport::TlsOptions& tls = protection.tls;
  if (tls.certificate.empty() && !(tls.key.empty() && tls.authorities.empty() && tls.name.empty())) {
    return Status::Invalid("there are TLS settings, but no certificate")
        .Next("set FUSEWIRE_TLS_CERT, FUSEWIRE_TLS_KEY and FUSEWIRE_TLS_CA, or none of them");
  }
  if (choice == TransportChoice::kShm) return transport::MakeShm();
  if (protection.any()) return MakeProtected(choice, std::move(tcp), std::move(protection));
  if (choice == TransportChoice::kTcp || (choice == TransportChoice::kAuto && tcp.resolve)) {
    return transport::MakeTcp(std::move(tcp));
  }
  transport::UcxOptions ucx;
  ucx.always = choice == TransportChoice::kUcx;
  auto far = transport::MakeUcx(transport::MakeTcp(std::move(tcp)), std::move(ucx));
  if (choice == TransportChoice::kUcx) return far;
  return transport::MakeNearest(transport::MakeShm(), std::move(far));
}

}  // namespace fusewire::task

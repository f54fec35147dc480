// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tls/tls.h"

#include <string>
#include <utility>

#include "fusewire/transport/layer_connection.h"
#include "fusewire/transport/tls/context.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS
namespace {

constexpr size_t kSessionBytes = 80 * 1024;  // as tests/attack measures it, with its connection

}  // namespace

Result<std::unique_ptr<Transport>> MakeTls(std::unique_ptr<Transport> beneath, TlsOptions options) {
  Result<TlsContextPtr> context = TlsContext::Load(std::move(options));
  if (!context.ok()) return context.status();
  auto make_session = [context = std::move(context).value()](bool is_dialled) {
    return context->NewSession(is_dialled);
  };
  return MakeLayer(std::move(beneath), kSessionBytes, std::move(make_session));
}

Result<std::string> TryTls(const TlsOptions& options) {
  Result<const TlsLibrary*> library = TlsLibrary::The();
  if (!library.ok()) return library.status();
  const std::string version = library.value()->OpenSSL_version(OPENSSL_VERSION);
  if (options.certificate.empty()) return version;
  Result<TlsContextPtr> context = TlsContext::Load(options);
  if (!context.ok()) return context.status();
  Result<std::string> certificate = context.value()->DescribeCertificate();
  if (!certificate.ok()) return certificate;
  return certificate.value() + ", " + version;
}

#else

Result<std::unique_ptr<Transport>> MakeTls(std::unique_ptr<Transport>, TlsOptions options) {
  return TryTls(options).status();
}

Result<std::string> TryTls(const TlsOptions&) {
  return Status::Invalid("this Fusewire was built without OpenSSL 3")
      .Next("install libssl-dev, and build Fusewire again");
}

#endif

}  // namespace fusewire::transport

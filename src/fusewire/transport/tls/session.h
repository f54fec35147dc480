// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One end of a TLS 1.3 connection.
// Home: its connection's. Owns: the SSL object. Fails: once, for good. kRefused: a certificate does not fit; kCorrupt:
// what comes is no TLS, or was changed on its way; kUnavailable: the peer has closed.
#pragma once

#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/transport/layer_session.h"
#include "fusewire/transport/tls/library.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS

class TlsSession final : public Session {
 public:
  // The SSL object knows its role. It is made at once, or when the first bytes have come: it has tens of KiB, which a
  // connection that says nothing does not get.
  using MakeSsl = UniqueFunction<Result<SSL*>()>;
  TlsSession(const TlsLibrary& library, SSL* ssl);
  TlsSession(const TlsLibrary& library, MakeSsl make_ssl);
  ~TlsSession() override;

  const char* wire() const override { return "tls"; }
  Status Handshake() override;
  Result<size_t> Read(Bytes into) override;
  Status Write(ConstBytes said) override;
  // RFC 5705 and 8446: derived from the keys of both ends.
  std::string Binding() override;
  void Shutdown() override;

 private:
  friend struct TlsBytes;
  void Begin(SSL* ssl);
  Status Fail(const char* phase, int result);

  const TlsLibrary& library_;
  MakeSsl make_ssl_;  // until ssl_ is there
  SSL* ssl_ = nullptr;
};

#endif

}  // namespace fusewire::transport

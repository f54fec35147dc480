// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How data that leaves this machine is protected on its way.
#pragma once

#include <string>

namespace fusewire::transport {

// Files in PEM. Without a certificate there is no TLS.
struct TlsOptions {
  std::string certificate;  // this task's, with the certificates between it and an authority
  std::string key;          // of the certificate
  std::string authorities;  // whose certificates peers must have
  // Of the peers: a name that each certificate must have; empty: one of these authorities is enough.
  std::string name;
};

struct Protection {
  TlsOptions tls;
  bool checksums = false;  // where there is no TLS; the same at all tasks
  bool any() const { return checksums || !tls.certificate.empty(); }
};

}  // namespace fusewire::transport

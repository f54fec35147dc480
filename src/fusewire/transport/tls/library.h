// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// libssl as a table of functions, filled when it is first needed. Nothing of it is linked: TensorFlow exports another
// library's functions under the same names.
// Home: none; a value. Owns: nothing: once loaded, the library stays until the process ends.
// Fails: The says what is missing.
#pragma once

#include "fusewire/base/status.h"

#if FUSEWIRE_HAS_TLS
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#endif

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS

#define FUSEWIRE_TLS_FUNCTIONS(X)       \
  X(OpenSSL_version)                    \
  X(TLS_method)                         \
  X(SSL_CTX_new)                        \
  X(SSL_CTX_free)                       \
  X(SSL_CTX_ctrl)                       \
  X(SSL_CTX_set_verify)                 \
  X(SSL_CTX_set_ciphersuites)           \
  X(SSL_CTX_set_num_tickets)            \
  X(SSL_CTX_set_default_passwd_cb)      \
  X(SSL_CTX_use_certificate_chain_file) \
  X(SSL_CTX_use_PrivateKey_file)        \
  X(SSL_CTX_check_private_key)          \
  X(SSL_CTX_get0_certificate)           \
  X(SSL_CTX_load_verify_file)           \
  X(SSL_new)                            \
  X(SSL_free)                           \
  X(SSL_set_bio)                        \
  X(SSL_set_connect_state)              \
  X(SSL_set_accept_state)               \
  X(SSL_set1_host)                      \
  X(SSL_do_handshake)                   \
  X(SSL_read)                           \
  X(SSL_write)                          \
  X(SSL_shutdown)                       \
  X(SSL_export_keying_material)         \
  X(SSL_get_error)                      \
  X(SSL_get_verify_result)              \
  X(X509_verify_cert_error_string)      \
  X(X509_get_subject_name)              \
  X(X509_NAME_oneline)                  \
  X(X509_get0_notAfter)                 \
  X(ASN1_TIME_diff)                     \
  X(BIO_get_new_index)                  \
  X(BIO_meth_new)                       \
  X(BIO_meth_set_read)                  \
  X(BIO_meth_set_write)                 \
  X(BIO_meth_set_ctrl)                  \
  X(BIO_new)                            \
  X(BIO_set_data)                       \
  X(BIO_get_data)                       \
  X(BIO_set_init)                       \
  X(BIO_set_flags)                      \
  X(BIO_clear_flags)                    \
  X(ERR_get_error)                      \
  X(ERR_clear_error)                    \
  X(ERR_reason_error_string)

struct TlsLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define FUSEWIRE_TLS_FUNCTION(name) decltype(&::name) name = nullptr;
  FUSEWIRE_TLS_FUNCTIONS(FUSEWIRE_TLS_FUNCTION)
#undef FUSEWIRE_TLS_FUNCTION

  // Any thread. Loaded at the first call.
  static Result<const TlsLibrary*> The();
  // Clears the thread's queue of errors.
  unsigned long LastError() const;
};

#endif

}  // namespace fusewire::transport

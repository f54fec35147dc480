// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// libucp as a table of functions, filled when it is first needed. Nothing of it is linked.
// Home: none; a value. Owns: nothing: once loaded, the library stays until the process ends, as its threads do.
// Fails: Load says what is missing.
#pragma once

#include <string>

#include "fusewire/base/status.h"

#if FUSEWIRE_HAS_UCX
#include <ucp/api/ucp.h>
#endif

namespace fusewire::transport {

// The devices of this machine whose port is up: "mlx5_0:1 rxe0:1". Asks the kernel, not UCX.
std::string RdmaDevices();

#if FUSEWIRE_HAS_UCX

#define FUSEWIRE_UCX_FUNCTIONS(X)   \
  X(ucp_get_version)                \
  X(ucp_init_version)               \
  X(ucp_config_read)                \
  X(ucp_config_release)             \
  X(ucp_cleanup)                    \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_get_address)         \
  X(ucp_worker_release_address)     \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_arm)                 \
  X(ucp_worker_progress)            \
  X(ucp_worker_set_am_recv_handler) \
  X(ucp_ep_create)                  \
  X(ucp_ep_close_nbx)               \
  X(ucp_ep_flush_nbx)               \
  X(ucp_am_send_nbx)                \
  X(ucp_am_recv_data_nbx)           \
  X(ucp_am_data_release)            \
  X(ucp_request_free)               \
  X(ucs_status_string)

struct UcxLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define FUSEWIRE_UCX_FUNCTION(name) decltype(&::name) name = nullptr;
  FUSEWIRE_UCX_FUNCTIONS(FUSEWIRE_UCX_FUNCTION)
#undef FUSEWIRE_UCX_FUNCTION

  // Any thread.
  static Result<UcxLibrary> Load(const std::string& name);
  std::string Version() const;
  // "init: Input/output error", as UCX says it.
  std::string Describe(const char* call, ucs_status_t status) const;
};

#endif

}  // namespace fusewire::transport

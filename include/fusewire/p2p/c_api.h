// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Endpoints for other languages: plain C over endpoint.h and op.h, whose contract holds here too; see docs/p2p.md.
// Times are in nanoseconds; 0 is the endpoint's own timeout.
// Home: any thread; a function that waits runs the idle reactor meanwhile.
// Owns: the caller owns each handle that it opens, and closes or frees it, before its endpoint.
// Fails: a function that can fail returns a code of docs/errors.md, 0 for success. fusewire_error() returns the whole
// error on the thread that called.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FUSEWIRE_C_API __attribute__((visibility("default")))
#else
#define FUSEWIRE_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fusewire_endpoint fusewire_endpoint;
typedef struct fusewire_peer fusewire_peer;  // lives as long as its endpoint
typedef struct fusewire_region fusewire_region;
typedef struct fusewire_signal fusewire_signal;
typedef struct fusewire_op fusewire_op;

// The last error on this thread; valid until the next call.
FUSEWIRE_C_API const char* fusewire_error(void);

// Tries a wire on this machine: 0, or a code that says why it is not available. `description` takes a few words, cut to
// `description_bytes`, their 0 included.
FUSEWIRE_C_API int fusewire_wire_try(const char* wire, char* description, size_t description_bytes);

// Tries TLS on this machine, with this certificate, key and authorities, all null for OpenSSL alone; as above.
FUSEWIRE_C_API int fusewire_tls_try(const char* certificate, const char* key, const char* authorities,
                                    char* description, size_t description_bytes);

// Where an operator says to listen, in numbers: an address, a name, an interface ("eth0"), a network ("10.0.0.0/8"), or
// "*", which is empty. 0, or a code: this machine has no such address. `address` is cut to `address_bytes`.
FUSEWIRE_C_API int fusewire_listening_address(const char* said, char* address, size_t address_bytes);

// All but `name` and `address` may be null. Set the whole to 0 first.
typedef struct fusewire_endpoint_options {
  const char* name;
  const char* address;  // its host may be an interface
  const char* cluster;
  const char* secret;  // at least 16 bytes
  const char* wire;    // auto, tcp, shm or ucx (task/transport_choice.h)
  // All that does not go through shared memory is encrypted by TLS 1.3, if `certificate` is not null: every peer has to
  // show a certificate of an authority in `authorities`, with the name `peer_name` unless that is null; files in PEM.
  const char* certificate;
  const char* key;
  const char* authorities;
  const char* peer_name;
  int checksums;  // not 0, and no TLS: it has a checksum for each record
} fusewire_endpoint_options;

FUSEWIRE_C_API int fusewire_endpoint_start(const fusewire_endpoint_options* options, fusewire_endpoint** out);
// Ends all operations. Free operations, regions and signals after it, and before fusewire_endpoint_free.
FUSEWIRE_C_API void fusewire_endpoint_close(fusewire_endpoint* endpoint);
FUSEWIRE_C_API void fusewire_endpoint_free(fusewire_endpoint* endpoint);
// "10.0.0.7:5555", valid as long as the endpoint.
FUSEWIRE_C_API const char* fusewire_endpoint_address(fusewire_endpoint* endpoint);

// `address` null: the peer will dial us.
FUSEWIRE_C_API int fusewire_connect(fusewire_endpoint* endpoint, const char* name, const char* address,
                                    fusewire_peer** out);
FUSEWIRE_C_API int fusewire_peer_up(fusewire_peer* peer);
FUSEWIRE_C_API uint64_t fusewire_peer_incarnation(fusewire_peer* peer);
FUSEWIRE_C_API const char* fusewire_peer_name(fusewire_peer* peer);

// Access: 1 read, 2 write, 3 both. `release(owner)`, if not null, is called on any thread once the memory
// is free.
FUSEWIRE_C_API int fusewire_region_open(fusewire_endpoint* endpoint, void* data, size_t bytes, int access,
                                        void (*release)(void* owner), void* owner, fusewire_region** out, uint64_t* id);
FUSEWIRE_C_API void fusewire_region_close(fusewire_region* region);
FUSEWIRE_C_API int fusewire_signal_open(fusewire_endpoint* endpoint, fusewire_signal** out, uint64_t* id);
FUSEWIRE_C_API uint64_t fusewire_signal_value(fusewire_signal* signal);
FUSEWIRE_C_API void fusewire_signal_add(fusewire_signal* signal, uint64_t amount);
FUSEWIRE_C_API void fusewire_signal_close(fusewire_signal* signal);

// Operations: make one once, post it as often as you like, free it when it is not under way.
FUSEWIRE_C_API fusewire_op* fusewire_send_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t tag,
                                             const void* data, size_t bytes, int confirm);
// `peer` null: from any peer.
FUSEWIRE_C_API fusewire_op* fusewire_receive_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t tag,
                                                void* data, size_t bytes);
FUSEWIRE_C_API fusewire_op* fusewire_put_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t region,
                                            uint64_t region_bytes, uint64_t offset, const void* data, size_t bytes,
                                            uint64_t signal, uint64_t add, int confirm);
FUSEWIRE_C_API fusewire_op* fusewire_get_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t region,
                                            uint64_t region_bytes, uint64_t offset, void* data, size_t bytes);
FUSEWIRE_C_API fusewire_op* fusewire_await_op(fusewire_endpoint* endpoint, fusewire_signal* signal, uint64_t at_least);
FUSEWIRE_C_API fusewire_op* fusewire_await_peer_op(fusewire_endpoint* endpoint, fusewire_peer* peer);
FUSEWIRE_C_API void fusewire_op_post(fusewire_op* op, int64_t timeout_ns);
// 1: it has ended. 0: it has not ended within limit_ns, and goes on; 0 only looks. A negative limit: it waits until a
// signal interrupts the thread; it also returns 0 from time to time, in case a signal came just before the wait. Handle
// signals, and wait again.
FUSEWIRE_C_API int fusewire_op_wait(fusewire_op* op, int64_t limit_ns);
// The code of an operation that has ended.
FUSEWIRE_C_API int fusewire_op_result(fusewire_op* op);
FUSEWIRE_C_API void fusewire_op_cancel(fusewire_op* op);
// Of a receive that has ended.
FUSEWIRE_C_API uint64_t fusewire_op_received(fusewire_op* op);
FUSEWIRE_C_API fusewire_peer* fusewire_op_source(fusewire_op* op);
// Cancels it if it is under way, and waits for its end.
FUSEWIRE_C_API void fusewire_op_free(fusewire_op* op);

#ifdef __cplusplus
}
#endif

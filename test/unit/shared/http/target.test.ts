import assert from "node:assert/strict";
import { test } from "node:test";
import { parsePath, parsePort } from "../../../../functions/shared/base/ports-and-paths.ts";
import { PodCalls } from "../../../../functions/shared/http/calls.ts";
import type { PodAddress, PodRequest } from "../../../../functions/shared/http/pod-http.ts";
import { clock, get, rejection, withPods } from "../../../support/played-pods.ts";

test("a port is a number from 1 to 65535 without any other character", () => {
  for (const [text, port] of [
    ["1", 1],
    ["80", 80],
    ["65535", 65_535],
  ] as const) {
    assert.equal(parsePort(text), port);
  }
  const none = [
    "",
    "0",
    "65536",
    "99999",
    "-1",
    "+1",
    "1.5",
    "8e1",
    "0x50",
    " 80",
    "80\n",
    "80/",
    "1@other:80",
    "http",
  ];
  assert.deepEqual(
    none.filter((text) => parsePort(text) !== undefined),
    [],
  );
});

test("a path begins with a slash, which is added, and consists of visible ASCII without a fragment", () => {
  assert.equal(parsePath("ingester/prepare?unset=true"), "/ingester/prepare?unset=true");
  assert.equal(parsePath("/a%20b/../c"), "/a%20b/../c");
  const none = ["", "/a b", "/a\r\nhost: x", "/a\u0000", "/ä", "/a#b", `/${"a".repeat(8_192)}`];
  assert.deepEqual(
    none.filter((text) => parsePath(text) !== undefined),
    [],
  );
});

const wrong: Readonly<Record<string, Partial<PodAddress>>> = {
  "a port with another host": { port: "1@other:80" as never },
  "a port as text": { port: "80" as never },
  "port 0": { port: 0 },
  "port 65536": { port: 65_536 },
  "half a port": { port: 80.5 },
  "no port": { port: Number.NaN },
  "a pod with a host in it": { pod: "web-0.other.example" },
  "a pod with a user in it": { pod: "web-0@other" },
  "a pod with a path in it": { pod: "other/" },
  "a pod without a name": { pod: "" },
  "a pod in upper case": { pod: "Web-0" },
  "a pod that ends with a dash": { pod: "web-" },
  "a pod of 64 letters": { pod: "a".repeat(64) },
  "a Service with a dot": { service: "web.other" },
  "a Service without a name": { service: "" },
  "a namespace with a fragment": { namespace: "ns#" },
  "a namespace in brackets": { namespace: "[::1]" },
  "another scheme": { scheme: "file" as never },
};

test("an address that could lead to another host is refused before anything is resolved or sent", async () => {
  await withPods({}, async ({ address, pods, asked, resolved }) => {
    for (const [what, part] of Object.entries(wrong)) {
      const error = await rejection(pods.send({ ...address, ...part }, get));
      assert.deepEqual([error.failed, error.sent], ["request", false], what);
    }
    assert.deepEqual([asked.length, resolved.length], [0, 0]);
  });
});

test("a malformed request is refused before anything is resolved or sent", async () => {
  const requests: Readonly<Record<string, Partial<PodRequest>>> = {
    "an absolute URL": { path: "http://other/" },
    "no path": { path: "" },
    "a path with a line end": { path: "/a\r\nx: y" },
    "a header for another host": { headers: { Host: "other" } },
    "a header about the connection": { headers: { "transfer-encoding": "chunked" } },
    "a header with a line end": { headers: { a: "b\r\nc: d" } },
    "a header without a name": { headers: { "": "b" } },
  };
  await withPods({}, async ({ address, pods, asked, resolved }) => {
    for (const [what, part] of Object.entries(requests)) {
      const error = await rejection(pods.send(address, { ...get, ...part }));
      assert.deepEqual([error.failed, error.sent], ["request", false], what);
    }
    assert.deepEqual([asked.length, resolved.length], [0, 0]);
  });
});

test("a path with two slashes, or with a host in it, stays a path", async () => {
  await withPods({}, async ({ address, pods, asked, resolved }) => {
    const paths = ["//other:80/x", "/@other/", "/..//..", "/a?b=http://other/"];
    for (const path of paths) await pods.send(address, { ...get, path });
    assert.deepEqual(
      asked.map(({ request }) => request.url),
      paths,
    );
    assert.deepEqual([...new Set(resolved)], ["web-0.web.ns.svc.cluster.local."]);
  });
});

test("a cluster's domain consists of labels with dots between, and at most one dot at the end", () => {
  const transport = { deliver: () => assert.fail("it was sent") };
  const make = (clusterDomain: string) => new PodCalls({ clock, transport, userAgent: "unit", clusterDomain });
  for (const domain of ["cluster.local.", "cluster.local", "a"]) make(domain);
  for (const domain of ["", ".", "cluster.local..", "a..b", "a/b", "a@b", "A", "a:80", "a.local#"]) {
    assert.throws(() => make(domain), /is no domain of a cluster/, domain);
  }
});

test("a host that is longer than a name in DNS is refused", async () => {
  const part = "a".repeat(63);
  await withPods({ clusterDomain: `${part}.local.` }, async ({ address, pods }) => {
    const error = await rejection(pods.send({ ...address, pod: part, service: part, namespace: part }, get));
    assert.equal(error.failed, "request");
  });
});

/** Whatever a label or an annotation contains, a call to a pod reaches that pod or nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parsePath, parsePort } from "../../functions/shared/base/ports-and-paths.ts";
import { type PodAddress, PodHttpError } from "../../functions/shared/http/pod-http.ts";
import { targetOf } from "../../functions/shared/http/target.ts";

const domain = "cluster.local.";
/** Ordinary names, and names that could make a URL lead elsewhere. */
const names = fc.oneof(
  { weight: 4, arbitrary: fc.stringMatching(/^[a-z0-9][-a-z0-9]{0,8}$/) },
  fc.string({
    unit: fc.constantFrom("a", "1", "-", ".", "@", ":", "/", "\\", "?", "#", "%", "[", "]", " ", "\n", "é"),
  }),
);
const ports = fc.oneof(
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 65_535 }).map(String) },
  fc.string({ unit: fc.constantFrom("8", "0", "@", ":", ".", "e", "-", "/", "a", " ") }),
);
const paths = fc.oneof(fc.webPath(), names, fc.string({ unit: "binary", maxLength: 20 }));

test("a call goes to the host, port and path that its names make, or is refused", () => {
  let [runs, sent] = [0, 0];
  fc.assert(
    fc.property(names, names, names, ports, paths, (pod, service, namespace, portText, pathText) => {
      runs++;
      const [port, path] = [parsePort(portText), parsePath(pathText)];
      if (port === undefined || path === undefined) return;
      const address: PodAddress = { scheme: "http", pod, service, namespace, group: "g", port };
      try {
        const { origin } = targetOf(address, { method: "GET", path }, domain);
        const url = new URL(origin + path);
        assert.equal(url.hostname, `${pod}.${service}.${namespace}.svc.${domain}`);
        assert.equal(Number(url.port || 80), Number(portText));
        assert.deepEqual([url.protocol, url.username, url.password, url.hash], ["http:", "", "", ""]);
        sent += 1;
      } catch (error) {
        assert.ok(error instanceof PodHttpError && error.failed === "request" && !error.sent, String(error));
      }
    }),
    { numRuns: 5_000, seed: 1 },
  );
  // A share, because the mutation run draws fewer.
  assert.ok(sent > runs / 50, `${sent} of ${runs}`);
});

test("a valid port is written back unchanged", () => {
  fc.assert(
    fc.property(ports, (text) => {
      const port = parsePort(text);
      assert.ok(port === undefined || String(port) === text.replace(/^0+/, ""), text);
    }),
    { numRuns: 2_000 },
  );
});

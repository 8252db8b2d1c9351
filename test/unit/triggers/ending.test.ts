/** What clients of the shipped server see between a signal and its end. It serves a group of the fake cluster. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Dispatcher, Pool } from "undici";
import { eventually } from "../../controlplane/api.ts";
import { type Presented, presentCertificate } from "../../support/drain-webhook.ts";
import { kubeconfigText } from "../../support/kubeconfig.ts";
import { namespace, type ServedGroup, serveGroup } from "../../support/served-group.ts";
import { launchServer, Server, type ServerOptions } from "../../support/server.ts";

describe("the shipped server after a signal", () => {
  let stage: ServedGroup;
  let certificate: Presented;
  let folder: string;
  let kubeconfig: string;

  before(async () => {
    stage = await serveGroup({ seed: 1, pods: 2, drop: 0 });
    certificate = await presentCertificate();
    folder = await mkdtemp(join(tmpdir(), "sluice-ending-"));
    kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigText(stage.served.url, {}));
  });

  after(async () => {
    await stage?.close();
    await certificate?.remove();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  const optionsOf = (settings: Readonly<Record<string, string>>): ServerOptions => ({
    kubeconfig,
    namespace,
    settings: { ...certificate.settings, ...settings },
  });

  /** Sends reviews over kept connections, as an API server does. */
  function apiServer({ tlsPort }: Server) {
    const pool = new Pool(`https://127.0.0.1:${tlsPort}`, { connect: { ca: certificate.ca }, connections: 8 });
    const review = async (name: string): Promise<{ code: number; headers: Dispatcher.ResponseData["headers"] }> => {
      const request = { uid: "u-1", operation: "CREATE", subResource: "eviction", namespace, name };
      const { statusCode, headers, body } = await pool.request({
        method: "POST",
        path: "/pods/eviction?timeout=15s",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request }),
      });
      const { response } = (await body.json()) as { response: { allowed: boolean; status?: { code: number } } };
      assert.equal(statusCode, 200);
      return { code: response.allowed ? 200 : (response.status?.code ?? 0), headers };
    };
    return { review, close: () => pool.destroy() };
  }

  const isUnready = ({ url }: Server) =>
    eventually("the server unready", 5_000, async () =>
      (await (await fetch(`${url}/readyz`)).text()) === "this process is ending\n" ? true : undefined,
    );

  test("it is unready and answers each review, on a connection that it then closes, until it ends with code 0", async (context) => {
    const server = await Server.start(optionsOf({ SHUTDOWN_DELAY: "3s" }));
    context.after(() => server.kill());
    await server.ready();
    const { review, close } = apiServer(server);
    context.after(close);
    const storm = new AbortController();
    context.after(() => storm.abort());
    const seen = { before: 0, after: 0, kept: 0 };
    const failures: string[] = [];
    let hasTurned = false;
    const ask = async () => {
      while (!storm.signal.aborted) {
        const isAfter = hasTurned;
        try {
          const { headers } = await review("gone-0");
          seen[isAfter ? "after" : "before"]++;
          if (isAfter && headers.connection !== "close") seen.kept++;
        } catch (error) {
          failures.push((error as Error).message);
          return;
        }
      }
    };
    const asking = Promise.all(Array.from({ length: 16 }, ask));
    await eventually("a storm of reviews", 10_000, async () => (seen.before > 200 ? true : undefined));
    const ended = server.stop(10_000);
    await isUnready(server);
    hasTurned = true;
    await eventually("a storm after the signal", 10_000, async () =>
      seen.after > 100 || failures.length > 0 ? true : undefined,
    );
    storm.abort();
    await asking;
    assert.deepEqual(failures, []);
    assert.equal(seen.kept, 0);
    assert.equal((await ended).summary, "exit code 0");
  });

  test("it answers an eviction that waits for its turn at the signal, and decides one that comes later", async (context) => {
    const server = await Server.start(optionsOf({ SHUTDOWN_DELAY: "3s", EVICTION_WAIT: "8s" }));
    context.after(() => server.kill());
    await server.ready();
    const { review, close } = apiServer(server);
    context.after(close);
    await eventually("an eviction allowed", 20_000, async () =>
      (await review("db-zone-a-0")).code === 200 ? true : undefined,
    );
    let isAnswered = false;
    const parked = review("db-zone-b-0").finally(() => {
      isAnswered = true;
    });
    await eventually("the eviction held", 5_000, async () =>
      (await server.metric("sluice_held_reviews")) > 0 ? true : undefined,
    );
    assert.equal(isAnswered, false);
    const ended = server.stop(10_000);
    assert.equal((await parked).code, 429);
    await isUnready(server);
    assert.equal((await review("db-zone-b-0")).code, 429, "the budget refuses it, from watches that go on");
    assert.equal((await ended).summary, "exit code 0");
  });

  test("it ends at once if no TLS server is open, and otherwise at a second signal", async (context) => {
    const plain = await Server.start(
      optionsOf({ TLS_PORT: "off", TLS_CERT_FILE: "", TLS_KEY_FILE: "", SHUTDOWN_DELAY: "1m" }),
    );
    context.after(() => plain.kill());
    await plain.ready();
    assert.equal((await plain.stop(10_000)).summary, "exit code 0");

    const launched = launchServer(optionsOf({ SHUTDOWN_DELAY: "1m" }));
    context.after(() => launched.stop(0));
    const logged = (text: string) =>
      eventually(text, 20_000, async () => (launched.printed().stdout.includes(text) ? true : undefined));
    await logged("reviews are answered on TLS port");
    launched.signal("SIGINT");
    await logged("reviews are answered for 60 s more, and a second signal ends this at once");
    launched.signal("SIGINT");
    assert.equal((await launched.ended).code, 1);
  });
});

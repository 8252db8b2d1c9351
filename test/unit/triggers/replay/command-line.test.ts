/** `npm start -- --replay FILE` as a process: where it prints what, and how it ends. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { kubeconfigText } from "../../../support/kubeconfig.ts";
import { type ServedGroup, serveGroup } from "../../../support/served-group.ts";

const root = join(import.meta.dirname, "../../../..");
const fixture = (name: string) => join(root, "test/fixtures", name);

describe("npm start -- --replay FILE", () => {
  let stage: ServedGroup;
  let folder: string;
  let kubeconfig: string;

  before(async () => {
    stage = await serveGroup({ seed: 1, pods: 2, drop: 0 });
    folder = await mkdtemp(join(tmpdir(), "sluice-replay-"));
    kubeconfig = await write("kubeconfig", kubeconfigText(stage.served.url, {}));
  });

  after(async () => {
    await stage?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  async function write(name: string, text: string): Promise<string> {
    const file = join(folder, name);
    await writeFile(file, text);
    return file;
  }

  function launch(args: readonly string[], settings: Readonly<Record<string, string>> = {}) {
    const env = { PATH: process.env.PATH, HOME: folder, KUBECONFIG: kubeconfig, NAMESPACE: "demo", ...settings };
    return spawn(process.execPath, [join(root, "triggers/main.ts"), ...args], { env, stdio: "pipe" });
  }

  async function run(args: readonly string[], settings: Readonly<Record<string, string>> = {}, input = "") {
    const child = launch(args, settings);
    child.stdin.end(input);
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
    return { code: code as number | null, stdout, stderr };
  }

  /** An API server that answers requests as a test says, and the requests that it got. */
  async function play(answer: Parameters<typeof createServer>[1]): Promise<{ server: HttpServer; file: string }> {
    const server = createServer(answer as never).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    return { server, file: await write(`kubeconfig-${port}`, kubeconfigText(`http://127.0.0.1:${port}`, {})) };
  }

  test("it prints the decision and ends with code 0, and it reads standard input as it reads a file", async () => {
    const fromFile = await run(["--replay", fixture("statefulset-update.json")]);
    assert.deepEqual([fromFile.code, fromFile.stderr], [0, ""]);
    assert.match(fromFile.stdout, /^request {3}POST \/\nanswer {4}204, queued\n\nfunction {2}advance-zone-rollout\n/);
    const input = await readFile(fixture("statefulset-update.json"), "utf8");
    assert.deepEqual(await run(["-replay=-"], {}, input), fromFile);
  });

  test("it rejects a missing file, or a file without a request, with code 2 and one line that says what it expects", async () => {
    for (const [args, reported] of [
      [["--replay", join(folder, "nowhere")], /^sluice: \S+\/nowhere cannot be read: ENOENT.*\n$/],
      [["--replay", kubeconfig], /^sluice: \S+ cannot be replayed; write a CloudEvent in .*: it is none of them\n$/],
      [["--replay"], /^sluice: -replay has no value; write -replay=FILE\n$/],
      [["--replay="], /^sluice: -replay has no value; write -replay=FILE\n$/],
    ] as const) {
      const { code, stdout, stderr } = await run(args);
      assert.deepEqual([code, stdout], [2, ""], stderr);
      assert.match(stderr, reported);
    }
  });

  test("it fails without a kubeconfig or an API server, with code 1 and one line that says so", async () => {
    const args = ["--replay", fixture("statefulset-update.json")];
    const nowhere = await run(args, { KUBECONFIG: join(folder, "nowhere") });
    assert.deepEqual([nowhere.code, nowhere.stdout], [1, ""]);
    assert.match(nowhere.stderr, /^sluice: the cluster cannot be found: .*nowhere.*\n$/);
    const { server, file } = await play((_, response) => response.end());
    server.close();
    const away = await run(args, { KUBECONFIG: file, KUBERNETES_TIMEOUT: "1s" });
    assert.deepEqual([away.code, away.stdout], [1, ""]);
    assert.match(away.stderr, /^sluice: the API server does not answer: .*ECONNREFUSED.*\n$/);
  });

  test("it fails with code 1 if a read is refused on the way, and prints what was done and what is missing", async () => {
    const { server, file } = await play((request, response) => {
      const isVersion = request.url === "/version";
      const message = 'leases.coordination.k8s.io "sluice-db" is forbidden: User "u" cannot get resource "leases"';
      const status = { kind: "Status", status: "Failure", code: 403, reason: "Forbidden", message };
      response.writeHead(isVersion ? 200 : 403, { "content-type": "application/json" });
      response.end(JSON.stringify(isVersion ? {} : status));
    });
    const { code, stdout, stderr } = await run(["--replay", fixture("statefulset-update.json")], { KUBECONFIG: file });
    server.close();
    assert.equal(code, 1);
    assert.match(stdout, /^request {3}POST \/\nanswer {4}204, queued\n/);
    assert.match(stderr, /^sluice: Sluice lacks the right to get statefulsets: .* is forbidden: .*\n$/);
  });

  test("it ends at Ctrl-C", async () => {
    const asked = Promise.withResolvers<void>();
    const { server, file } = await play(() => asked.resolve());
    const child = launch(["--replay", fixture("statefulset-update.json")], { KUBECONFIG: file });
    await asked.promise;
    child.kill("SIGINT");
    assert.deepEqual(await once(child, "exit"), [null, "SIGINT"]);
    server.closeAllConnections();
    server.close();
  });
});

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { Script } from "node:vm";
import { table } from "../../triggers/table.ts";
import { Api, ApiError, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup } from "../controlplane/fixtures.ts";
import { freePort } from "../controlplane/ports.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { startCollector } from "../support/tracing-collector.ts";
import { buildImage, cleanEnvironment, filesOf, type Image, logOf } from "./image.ts";
import { startHttpProxy, startSocksProxy } from "./proxies.ts";

const execute = promisify(execFile);
const project = join(import.meta.dirname, "../..");
const names = ["all", ...table.map(({ name }) => name)];
const isRoot = process.getuid?.() === 0;
const reviewsOnPort = { REVIEWS_ON_PORT: "true" };

describe("the image, built in empty folders as the Dockerfile has it", {
  skip: await skipWithoutControlPlane(),
}, () => {
  let image: Image;
  let controlPlane: ControlPlane;
  let api: Api;
  let folder: string;
  const namespace = "image";
  const running: Launched[] = [];

  before(async () => {
    image = await buildImage();
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-image" });
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    const crds = join(project, "knative/base/crds/zoneawarepoddisruptionbudgets.yaml");
    const env = { ...process.env, KUBECONFIG: controlPlane.kubeconfig };
    await execute(controlPlane.kubectl, ["apply", "-f", crds], { env });
    folder = await mkdtemp(join(tmpdir(), "sluice-image-test-"));
    // The image's user must be able to reach it.
    await execute("chmod", ["755", folder]);
    await writeFile(join(folder, "kubeconfig"), await readFile(controlPlane.kubeconfig), { mode: 0o644 });
  });

  after(async () => {
    await Promise.all(running.map((launched) => launched.stop(0)));
    await api?.close();
    await controlPlane?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    await image?.remove();
  });

  /**
   * @param flags for Node, before those of the image
   *
   * @param place a copy that runs in place of the image
   */
  function run(
    settings: Readonly<Record<string, string>>,
    args: readonly string[] = [],
    flags: readonly string[] = [],
    place = join(image.root, "sluice"),
  ): Launched {
    const [file = "", ...message] = image.command.flatMap((word) =>
      word === process.execPath ? [word, ...flags] : [word.replace(join(image.root, "sluice"), place)],
    );
    const kubeconfig = join(folder, "kubeconfig");
    const { PATH } = cleanEnvironment();
    // No Service leads to it, so it need not keep answering after a signal.
    const own = { KUBECONFIG: kubeconfig, NAMESPACE: namespace, PORT: "0", SHUTDOWN_DELAY: "0" };
    const env = { PATH, ...image.environment, ...own, ...settings };
    const launched = launch(file, [...message, ...args], { env, output: "pipe", cwd: "/" });
    running.push(launched);
    return launched;
  }

  /** Resolves to the URL of a server that reports that it is ready. */
  async function ready(launched: Launched): Promise<string> {
    const url = await eventually("the server listening", 30_000, async () => {
      if (launched.end() !== undefined) throw new Error(`it ended: ${launched.printed().stderr}`);
      const port = logOf(launched).find((line) => line.msg.startsWith("listening"))?.port;
      return port === undefined ? undefined : `http://127.0.0.1:${port}`;
    });
    await eventually("the server ready", 30_000, async () => {
      const answer = await fetch(`${url}/readyz`);
      await answer.text();
      return answer.status === 200 ? true : undefined;
    });
    return url;
  }

  test("the image has a bundle for each function and one for all, the compiled code, the plugin, and no package", async () => {
    const found = await readdir(join(image.root, "sluice"));
    assert.deepEqual(found.sort(), ["compiled", "kubectl-sluice", "later", "start.cjs", ...names].sort());
    assert.deepEqual(await readdir(image.root), ["sluice"]);
  });

  test("the bundle of a function contains no other function, and that of the status has the guards of all besides", async () => {
    const functions = names.filter((one) => one !== "all").sort();
    for (const name of names) {
      const map = JSON.parse(await readFile(join(image.root, "sluice", name, "main.cjs.map"), "utf8"));
      const sources: (string | undefined)[] = map.sources.map(
        (source: string) => /functions\/((?!shared)[^/]+\/.*)/.exec(source)?.[1],
      );
      const own = sources.filter((source) => source !== undefined && (name === "all" || source.startsWith(`${name}/`)));
      const others = sources.filter((source) => source !== undefined && !own.includes(source));
      const found = [...new Set(own.map((source) => source?.replace(/\/.*/, "")))];
      assert.deepEqual(found.sort(), name === "all" ? functions : [name]);
      const guards = functions.filter((one) => one !== name).map((one) => `${one}/guards.ts`);
      assert.deepEqual(others.sort(), name === "show-status" ? guards : []);
    }
  });

  test("the image's user can write nowhere in it, and is not root", async () => {
    const [file, ...message] = image.command;
    const probe = `require("fs").writeFileSync(process.argv[1] + "/sluice/x", "")`;
    const identity = isRoot ? message.slice(0, message.indexOf("--") + 1) : [];
    const command = isRoot ? [file, ...identity, process.execPath] : [process.execPath];
    const [program = "", ...args] = [...command, "-e", probe, image.root];
    await assert.rejects(execute(program, args), /EACCES/);
    const uid = await execute(program, [...args.slice(0, -3), "-p", "process.getuid()"]);
    assert.equal(Number(uid.stdout), isRoot ? 65532 : process.getuid?.());
    for (const path of (await filesOf(image.root)).keys()) {
      assert.equal((await stat(join(image.root, path))).mode & 0o222, 0, path);
    }
  });

  test("the same sources give the same bytes", async () => {
    const build = join(image.stages.get("build") ?? "", "build");
    const again = join(build, "again");
    await mkdir(again);
    await execute(process.execPath, [join(build, "knative/image/bundle.ts"), again], { cwd: build });
    const [first, second] = [await filesOf(join(build, "dist")), await filesOf(again)];
    assert.deepEqual([...second.keys()].sort(), [...first.keys()].sort());
    for (const [path, bytes] of first) assert.ok(second.get(path)?.equals(bytes), path);
  });

  test("each function starts from compiled code, Node's own and ours, reports what it serves, and ends with code 0", async () => {
    for (const name of names) {
      const launched = run({ FUNCTION: name, VIEWS: "list", NODE_DEBUG_NATIVE: "CODE_CACHE" });
      await ready(launched);
      assert.equal(logOf(launched)[0]?.serving, name);
      assert.equal((await launched.stop(10_000)).code, 0);
      const { stderr } = launched.printed();
      assert.match(stderr, /Code cache of https .*is accepted/);
      assert.doesNotMatch(stderr, /is rejected|compiled again/);
    }
  });

  test("the compiled code contains the functions that have run, and not only code outside of functions", async () => {
    const kept = await filesOf(join(image.root, "sluice/compiled"));
    for (const name of names) {
      const file = join(image.root, "sluice", name, "main.cjs");
      const source = `(function (exports, require, module) {${await readFile(file, "latin1")}\n})`;
      const unrun = new Script(source, { filename: file }).createCachedData();
      assert.ok((kept.get(`/${name}/main.cjs`)?.length ?? 0) > 2 * unrun.length, name);
    }
  });

  test("a part that is loaded on demand is not loaded by functions that do not need it", async () => {
    const [needed, copied] = ["js-yaml.cjs", join(folder, "copied")];
    await cp(join(image.root, "sluice"), copied, { recursive: true });
    await execute("chmod", ["-R", "u+w", copied]);
    const later = await readdir(join(copied, "later"));
    const unneeded = later.filter((name) => name.endsWith(".cjs") && name !== needed);
    assert.ok(unneeded.length > 5);
    for (const name of unneeded) await rm(join(copied, "later", name));
    // Of the others only rotate-certificate ever makes a certificate.
    for (const name of ["advance-zone-rollout", "evaluate-eviction", "suspend-group"]) {
      const launched = run({ FUNCTION: name }, [], [], copied);
      await ready(launched);
      assert.equal((await launched.stop(10_000)).code, 0);
      assert.equal(launched.printed().stderr, "");
    }
  });

  test("with other flags for V8 the server reports that its code is compiled again, and goes on", async () => {
    const launched = run({ FUNCTION: "advance-zone-rollout" }, [], ["--no-opt"]);
    await ready(launched);
    assert.equal((await launched.stop(10_000)).code, 0);
    assert.match(launched.printed().stderr, /advance-zone-rollout\/main\.cjs was compiled .* and is compiled again\n/);
  });

  test("the first heap is cleared once after the start, but not without watches", async () => {
    const start = (views: string) => run({ FUNCTION: "advance-zone-rollout", VIEWS: views }, [], ["--trace-gc"]);
    const clearings = (launched: Launched) => launched.printed().stdout.match(/Mark-Compact.*\btesting\b/g)?.length;
    const listing = start("list");
    const watching = start("watch");
    await eventually("a heap that is cleared", 30_000, async () => clearings(watching));
    // A server that started first would have cleared its heap by now.
    for (const launched of [watching, listing]) assert.equal((await launched.stop(10_000)).code, 0);
    assert.deepEqual([clearings(watching), clearings(listing)], [1, undefined]);
  });

  test("the compiled code depends on neither the environment nor the time of the build", async () => {
    const server = join(image.stages.get("compiled") ?? "", "sluice", "server");
    const again = await mkdtemp(join(tmpdir(), "sluice-compiled-"));
    try {
      await cp(server, again, { recursive: true });
      const setting = "told-to-the-build-alone";
      const env = { ...cleanEnvironment(), SLUICE_SETTING: setting, NAMESPACE: setting };
      await execute(process.execPath, [join(server, "../compile.cjs"), again], { env });
      for (const [path, bytes] of await filesOf(join(again, "compiled")))
        for (const word of [setting, "sluice-compile-", new Date().toISOString().slice(0, 13)])
          assert.ok(!bytes.includes(word), `${path}: ${word}`);
    } finally {
      await rm(again, { recursive: true, force: true });
    }
  });

  test("a reconcile that an event has triggered is finished before SIGTERM ends the server", async () => {
    const ledgerOf = (group: string) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-${group}`;
    const isMissing = (error: unknown) => error instanceof ApiError && error.status === 404;
    await createGroup(controlPlane, { name: "swept", namespace, zones: 1, pods: 1 });
    // A trigger is gathered for a second, so the signal finds it in the queue.
    const launched = run({ FUNCTION: "advance-zone-rollout", VIEWS: "list", GATHER_MS: "1000" });
    const url = await ready(launched);
    await eventually("the first sweep's ledger", 20_000, () =>
      api.get(ledgerOf("swept")).catch((error: unknown) => {
        if (!isMissing(error)) throw error;
        return undefined;
      }),
    );
    // The next sweep is minutes away: only the event can trigger a reconcile of this group.
    const group = await createGroup(controlPlane, { name: "told", namespace, zones: 1, pods: 1 });
    const event = {
      specversion: "1.0",
      id: "1",
      source: "https://10.0.0.1:443",
      type: "dev.knative.apiserver.ref.update",
      data: { apiVersion: "apps/v1", kind: "StatefulSet", namespace, name: group.statefulSets[0] },
    };
    const headers = { "content-type": "application/cloudevents+json" };
    const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(event) });
    assert.equal(answer.status, 204);
    launched.signal("SIGTERM");
    assert.equal((await launched.ended).code, 0);
    const lines = logOf(launched).map((line) => JSON.stringify(line));
    const ending = lines.findIndex((line) => line.includes("SIGTERM"));
    const [first = -1] = lines.flatMap((line, index) => (/"group":"told"/.test(line) ? [index] : []));
    assert.ok(ending >= 0 && first > ending, lines.join("\n"));
    await api.get(ledgerOf("told"));
    assert.equal(logOf(launched).at(-1)?.msg, "ended");
  });

  test("the image's Node runs the plugin, as the message to users of an old Node says", async () => {
    const plugin = join(image.root, "sluice/kubectl-sluice");
    const [, path = ""] = /\/nodejs\/bin\/node (\S+) why GROUP"/.exec(await readFile(plugin, "utf8")) ?? [];
    const env = { ...image.environment, KUBECONFIG: join(folder, "kubeconfig") };
    const args = [join(image.root, path), "why", "told", "-n", namespace];
    assert.match((await execute(process.execPath, args, { env })).stdout, /^told in namespace image: /);
  });

  test("the server decides a review by the objects of the API server", async () => {
    const launched = run({ FUNCTION: "evaluate-eviction", ...reviewsOnPort });
    const url = await ready(launched);
    const request = { uid: "u-1", operation: "CREATE", subResource: "eviction", namespace, name: "gone-0" };
    const answer = await fetch(`${url}/admission/pod-eviction`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request }),
    });
    const { response } = (await answer.json()) as { response: { uid: string; status: { code: number } } };
    assert.deepEqual([answer.status, response.uid, response.status.code], [200, "u-1", 404]);
    assert.equal((await launched.stop(10_000)).code, 0);
  });

  test("neither a start nor an event loads Node's fetch and HTTP/2, which take as long as everything else of Node", async () => {
    const setting = 'process.on("exit",()=>console.error(process.moduleLoadList.join()))';
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(setting)}`;
    const launched = run({ FUNCTION: "advance-zone-rollout", VIEWS: "list", NODE_OPTIONS });
    const url = await ready(launched);
    const event = { specversion: "1.0", id: "1", source: "/test", type: "dev.knative.sources.ping" };
    const headers = { "content-type": "application/cloudevents+json" };
    assert.equal((await fetch(url, { method: "POST", headers, body: JSON.stringify(event) })).status, 204);
    assert.equal((await launched.stop(10_000)).code, 0);
    const loaded = launched.printed().stderr.split(",");
    assert.ok(loaded.includes("NativeModule https"));
    assert.deepEqual(
      loaded.filter((name) => /undici|http2/.test(name)),
      [],
    );
  });

  test("the server sends traces, from code that was compiled during the build", async (t) => {
    const collector = await startCollector();
    t.after(() => collector.close());
    const traced = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" };
    const settings = { FUNCTION: "advance-zone-rollout", VIEWS: "list", ...traced };
    const launched = run(settings);
    await ready(launched);
    assert.equal((await launched.stop(10_000)).code, 0);
    assert.ok(collector.spans().some(({ name }) => name === "sweep"));
    assert.ok((await filesOf(join(image.root, "sluice/compiled/later"))).has("/tracing-sdk.cjs"));
    assert.equal(launched.printed().stderr, "");
  });

  test("expressions of partitions are parsed by a package that is loaded for the first of them", async () => {
    const launched = run({ FUNCTION: "validate-zone-budget", ...reviewsOnPort });
    const url = await ready(launched);
    const selector = { matchLabels: { "rollout-group": "told" } };
    const answers = ["([a-z]+-\\d+)-.*", "(?=ahead)"].map(async (podNamePartitionRegex) => {
      const spec = { selector, maxUnavailable: 1, podNamePartitionRegex };
      const metadata = { name: "budget", namespace };
      const apiVersion = "rollout-operator.grafana.com/v1";
      const object = { apiVersion, kind: "ZoneAwarePodDisruptionBudget", metadata, spec };
      const request = { uid: "u-1", operation: "CREATE", namespace, name: "budget", object };
      const answer = await fetch(`${url}/admission/zpdb-validation`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request }),
      });
      return ((await answer.json()) as { response: { allowed: boolean } }).response.allowed;
    });
    assert.deepEqual(await Promise.all(answers), [true, false]);
    assert.equal((await launched.stop(10_000)).code, 0);
  });

  test("the server reaches the API server through a proxy, by HTTP and by SOCKS", async () => {
    for (const start of [startHttpProxy, startSocksProxy]) {
      const proxy = await start();
      const configuration = JSON.parse(await readFile(controlPlane.kubeconfig, "utf8"));
      configuration.clusters[0].cluster["proxy-url"] = proxy.url;
      const kubeconfig = join(folder, "proxied");
      await writeFile(kubeconfig, JSON.stringify(configuration), { mode: 0o644 });
      const launched = run({ FUNCTION: "advance-zone-rollout", KUBECONFIG: kubeconfig });
      await ready(launched);
      assert.ok(proxy.connections() > 0, proxy.url);
      assert.equal((await launched.stop(10_000)).code, 0);
      await proxy.stop();
    }
  });

  test("the images of agent and process manager have one module each: code 2 and a line for each wrong setting", async () => {
    assert.equal(image.agent.command[0], process.execPath, "the agent's runs as root");
    const wrong = {
      AGENT_PERMIT: "soon",
      NODE_NAME: "Node",
      KUBERNETES_SERVICE_HOST: "localhost",
      SLUICE_PORT: "none",
    };
    const wrongOf = [
      ["AGENT_PERMIT", "NODE_NAME"],
      ["POD_IP", "POD_UID", "SLUICE_PORT"],
    ];
    for (const [index, { root, command, environment }] of [image.agent, image.processManager].entries()) {
      assert.deepEqual((await readdir(join(root, "sluice"))).sort(), ["main.mjs", "main.mjs.map"]);
      const [file, ...args] = command;
      const { PATH } = cleanEnvironment();
      const launched = launch(file, args, { env: { PATH, ...environment, ...wrong }, output: "pipe", cwd: "/" });
      assert.equal((await launched.ended).code, 2);
      const lines = launched.printed().stderr.trim().split("\n");
      assert.deepEqual(lines.map((line) => line.split(" ")[0]).sort(), wrongOf[index]);
    }
  });

  test("the agent's module renews its Lease from the image, ends in an orderly way, and takes less than 90 MB", async () => {
    const { command, environment } = image.agent;
    const [own, node] = [join(folder, "agent"), "agents-node"];
    await mkdir(own);
    await writeFile(join(own, "token"), controlPlane.token);
    await cp(controlPlane.caFile, join(own, "ca.crt"));
    await api.post("/api/v1/nodes", { apiVersion: "v1", kind: "Node", metadata: { name: node } });
    const { hostname, port } = new URL(controlPlane.url);
    const reached = { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port, AGENT_CREDENTIALS: own };
    const folders = { AGENT_RUN_FOLDER: own, AGENT_STATE_FOLDER: own, AGENT_WATCHDOG: join(own, "none") };
    const times = { AGENT_RENEW_EVERY: "50ms", AGENT_RENEW_TIMEOUT: "2s", AGENT_PORT: String(await freePort()) };
    const env = { ...environment, NODE_NAME: node, FENCE_NAMESPACE: namespace, ...reached, ...folders, ...times };
    const [file, ...args] = command;
    const launched = launch(file, args, { env, output: "pipe", cwd: "/" });
    running.push(launched);
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/agent-${node}`;
    const annotationsOf = async () => {
      const { metadata } = await api.get<{ metadata: { annotations: Readonly<Record<string, string>> } }>(lease);
      return metadata.annotations;
    };
    await eventually("100 renewals", 60_000, async () => {
      const annotations = await annotationsOf().catch(() => undefined);
      return Number(annotations?.["sluice.dev/agent-renewals"]) >= 100 ? true : undefined;
    });
    const status = await readFile(`/proc/${launched.pid}/status`, "utf8");
    const residentKb = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
    assert.ok(residentKb > 10_000 && residentKb * 1024 < 90_000_000, `${residentKb} kB`);
    assert.equal((await launched.stop(20_000)).code, 0, launched.printed().stdout);
    assert.equal((await annotationsOf())["sluice.dev/agent-mode"], "disarmed");
  });

  test("an unknown FUNCTION ends with code 2 and the names of the existing ones", async () => {
    for (const wrong of ["roll", "../all", "compiled", "later"]) {
      const launched = run({ FUNCTION: wrong });
      assert.equal((await launched.ended).code, 2);
      for (const name of names) assert.ok(launched.printed().stderr.includes(name), wrong);
    }
  });
});

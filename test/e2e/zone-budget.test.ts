import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { alerts } from "../../knative/render/alerts.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { type Authority, createAuthority, type IssuedPair } from "../support/certificates.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { launchServer, Server } from "../support/server.ts";
import { budgetWebhook, certificateShown, reviewAnew } from "./budget-reviews.ts";

const crds = join(import.meta.dirname, "../../knative/base/crds");
const budgetsPath = "/apis/rollout-operator.grafana.com/v1/namespaces/default/zoneawarepoddisruptionbudgets";
const webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function manifest(name: string, spec: object = {}): object {
  return {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name, namespace: "default" },
    spec: { selector: { matchLabels: { "rollout-group": "ingester" } }, ...spec },
  };
}

/** As rollout-operator's users have it, but by address, because there is no Service here. */
function registration(port: number, ca: string): object {
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: "zpdb-validation-default" },
    webhooks: [budgetWebhook("zpdb-validation-default.grafana.com", { url: `https://127.0.0.1:${port}`, ca })],
  };
}

describe("budgets are validated by the real API server's webhook", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let folder: string;
  let authority: Authority;
  let server: Server;
  let port: number;

  const run = (input: string, args: readonly string[]): Promise<Output> =>
    new Promise((resolve) => {
      const child = execFile(
        controlPlane.kubectl,
        ["--kubeconfig", controlPlane.kubeconfig, ...args],
        (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      );
      child.stdin?.end(input);
    });
  /** As `kubectl apply -f -`, unless told otherwise. */
  const kubectl = (object: object | undefined, ...args: string[]): Promise<Output> =>
    object === undefined ? run("", args) : run(JSON.stringify(object), ["apply", "-f", "-", ...args]);

  const present = async ({ cert, key }: Pick<IssuedPair, "cert" | "key">): Promise<void> => {
    for (const [name, text] of [
      ["tls.crt", cert],
      ["tls.key", key],
    ] as const) {
      await writeFile(join(folder, `${name}.new`), text);
      await rename(join(folder, `${name}.new`), join(folder, name));
    }
  };

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-zone-budget" });
    folder = await mkdtemp(join(tmpdir(), "sluice-zone-budget-"));
    authority = await createAuthority();
    await present(await authority.issue());
    const applied = await kubectl(undefined, "apply", "-k", crds);
    assert.equal(applied.code, 0, applied.stderr);
    const established = await kubectl(
      undefined,
      "wait",
      "--for=condition=Established",
      "--timeout=30s",
      "crd",
      "--all",
    );
    assert.equal(established.code, 0, established.stderr);
    server = await Server.start({
      kubeconfig: controlPlane.kubeconfig,
      namespace: "default",
      settings: {
        FUNCTION: "validate-zone-budget",
        TLS_PORT: "0",
        TLS_CERT_FILE: join(folder, "tls.crt"),
        TLS_KEY_FILE: join(folder, "tls.key"),
      },
    });
    await server.ready();
    port = Number(server.log.find(({ tlsPort }) => tlsPort !== undefined)?.tlsPort);
    await api.post(budgetsPath, manifest("let-in", { podNamePartitionRegex: "(" }));
    await api.post(webhooksPath, registration(port, authority.cert));
    // The API server learns of the webhook a moment later.
    await eventually("the webhook called", 30_000, async () => {
      const { stderr } = await kubectl(manifest("probe", { podNamePartitionRegex: "(" }), "--dry-run=server");
      return stderr.includes("zpdb-validation-default.grafana.com") ? true : undefined;
    });
  });

  after(async () => {
    await server?.stop();
    await api?.close();
    await controlPlane?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  test("kubectl apply of a valid budget stores it, and the CRD knows it by its short name", async () => {
    const spec = {
      maxUnavailable: 2,
      podNamePartitionRegex: "ingester-zone-[a-z]-([0-9]+)",
      crossZoneEvictionDelay: "5m",
    };
    const { code, stdout, stderr } = await kubectl(manifest("valid", spec));
    assert.equal(code, 0, stderr);
    assert.match(stdout, /zoneawarepoddisruptionbudget.rollout-operator.grafana.com\/valid created/);
    const listed = await kubectl(undefined, "get", "zpdb", "-o", "name");
    assert.match(listed.stdout, /\/valid\n/);
    const stored = await api.get<{ spec: object }>(`${budgetsPath}/valid`);
    assert.deepEqual(stored.spec, { selector: { matchLabels: { "rollout-group": "ingester" } }, ...spec });
  });

  test("kubectl apply of an invalid budget is refused with our message, and nothing is stored", async () => {
    for (const [spec, message] of [
      [{ podNamePartitionRegex: "(" }, "write an RE2 expression for the whole name of a pod"],
      [{ podNamePartitionRegex: "a-[0-9]+" }, "put the part that is the partition in parentheses"],
      [{ maxUnavailable: 0, maxUnavailablePercentage: 0 }, "leave one out, even where it is 0"],
      [{ crossZoneEvictionDelay: "5m" }, "write spec.podNamePartitionRegex too"],
    ] as const) {
      const { code, stderr } = await kubectl(manifest("invalid", spec));
      assert.equal(code, 1);
      assert.match(stderr, /BadRequest.+"zpdb-validation-default\.grafana\.com" denied the request: spec\./);
      assert.ok(stderr.includes(message), stderr);
    }
    const { code, stderr } = await kubectl(undefined, "get", "zpdb", "invalid");
    assert.ok(code === 1 && /NotFound/.test(stderr), stderr);
  });

  test("a change that makes a budget invalid is refused, and the previous budget stays", async () => {
    assert.equal((await kubectl(manifest("changed", { maxUnavailablePercentage: 50 }))).code, 0);
    const spec = { maxUnavailablePercentage: 50, podNamePartitionRegex: "(a)" };
    const { code, stderr } = await kubectl(manifest("changed", spec));
    assert.ok(code === 1 && /cannot be combined with spec\.podNamePartitionRegex/.test(stderr), stderr);
    const stored = await api.get<{ spec: Record<string, unknown> }>(`${budgetsPath}/changed`);
    assert.equal(stored.spec.podNamePartitionRegex, undefined);
  });

  test("Sluice never gets what the schemas of the CRDs refuse; kubectl reports pruned fields", async () => {
    const refusals = await server.metric("sluice_verdicts_total", { guard: "invalid-budget" });
    for (const [spec, message] of [
      [{ maxUnavailable: -1 }, /spec\.maxUnavailable.+greater than or equal to 0/],
      [{ maxUnavailablePercentage: 101 }, /less than or equal to 100/],
      [{ podNameRegexGroup: 0 }, /greater than or equal to 1/],
      [{ selector: undefined }, /spec\.selector: Required value/],
      [{ selector: { matchLabels: {}, matchExpressions: [] } }, /unknown field "spec\.selector\.matchExpressions"/],
    ] as const) {
      const { code, stderr } = await kubectl(manifest("schema", spec), "--dry-run=server");
      assert.ok(code === 1 && message.test(stderr), stderr);
    }
    assert.equal(await server.metric("sluice_verdicts_total", { guard: "invalid-budget" }), refusals);
    const everything = await kubectl(manifest("schema", { selector: { matchLabels: {} } }), "--dry-run=server");
    assert.match(everything.stderr, /Warning: spec\.selector\.matchLabels is empty: the budget governs every pod/);
    assert.equal(everything.code, 0);
  });

  test("the first command of the alert names the field of an invalid budget that got in while no webhook answered, and the valid ones", async () => {
    const { first } = alerts.find(({ name }) => name.startsWith("BadZoneAware")) ?? assert.fail();
    const [, get, replace] = /^kubectl (.+) \| kubectl (.+ -f -) names/.exec(first) ?? [];
    const words = (command = "") => command.replace("{{ $labels.namespace }}", "default").split(" ");
    const budgets = await run("", words(get));
    const { code, stdout, stderr } = await run(budgets.stdout, words(replace));
    assert.equal(code, 1);
    assert.match(stderr, /denied the request: spec\.podNamePartitionRegex is /);
    assert.match(stdout, /\/valid replaced \(server dry run\)/);
    assert.doesNotMatch(stdout, /let-in/);
  });

  test("a ReplicaTemplate is scaled by kubectl, with 1 as its default", async () => {
    const template = { apiVersion: "rollout-operator.grafana.com/v1", kind: "ReplicaTemplate", spec: {} };
    assert.equal((await kubectl({ ...template, metadata: { name: "ingester", namespace: "default" } })).code, 0);
    const scaled = await kubectl(
      undefined,
      "scale",
      "replicatemplate/ingester",
      "--replicas=3",
      "--current-replicas=1",
    );
    assert.equal(scaled.code, 0, scaled.stderr);
    const { stdout } = await kubectl(undefined, "get", "replicatemplates");
    assert.match(stdout, /NAME +STATUSREPLICAS +SPECREPLICAS\ningester +3\n/);
  });

  test("certificates are replaced during reviews, and not one review fails", async () => {
    let swapping = true;
    const answered = { allowed: 0, denied: 0, anew: 0 };
    const askAnew = async (): Promise<void> => {
      for (; swapping; answered.anew++) {
        assert.match(
          await reviewAnew(port, authority.cert, manifest("anew")),
          /"response":\{"uid":"anew","allowed":true\}/,
        );
      }
    };
    const ask = async (worker: number): Promise<void> => {
      for (let count = 0; swapping; count++) {
        const isBad = (count + worker) % 2 === 0;
        const object = manifest(`review-${worker}`, isBad ? { podNamePartitionRegex: "(" } : {});
        const answer = await api.send("POST", `${budgetsPath}?dryRun=All`, object);
        const text = await answer.body.text();
        assert.equal(answer.statusCode, isBad ? 400 : 201, text);
        answered[isBad ? "denied" : "allowed"]++;
      }
    };
    const asking = Promise.all([...[0, 1, 2].map(ask), askAnew()]);
    let shown = "";
    for (let swap = 0; swap < 4; swap++) {
      const pair = await authority.issue();
      await present(pair);
      await eventually("the new certificate shown", 10_000, async () => {
        shown = (await certificateShown(port)).serialNumber;
        return shown === pair.serialNumber ? true : undefined;
      });
    }
    await present({ cert: "no certificate", key: "no key" });
    await eventually("the broken pair reported", 10_000, async () =>
      server.log.some(({ level, msg }) => level === "warn" && /holds no certificate in PEM.+is kept until/.test(msg))
        ? true
        : undefined,
    );
    assert.equal((await certificateShown(port)).serialNumber, shown);
    swapping = false;
    await asking;
    assert.ok(answered.allowed > 20 && answered.denied > 20 && answered.anew > 20, JSON.stringify(answered));
    await present(await authority.issue());
  });

  test("wrong settings of TLS end the start, with the file's name", async () => {
    const settings = {
      TLS_PORT: "0",
      TLS_CERT_FILE: join(folder, "missing.crt"),
      TLS_KEY_FILE: join(folder, "tls.key"),
    };
    const launched = launchServer({ kubeconfig: controlPlane.kubeconfig, namespace: "default", settings });
    assert.equal((await launched.ended).code, 2);
    assert.match(launched.printed().stderr, /^sluice: TLS_CERT_FILE cannot be read: ENOENT.+missing\.crt/);
    const clients = { TLS_PORT: "0", TLS_CLIENT_CA_FILE: join(folder, "missing-ca.crt") };
    const asking = launchServer({ kubeconfig: controlPlane.kubeconfig, namespace: "default", settings: clients });
    assert.equal((await asking.ended).code, 2);
    assert.match(asking.printed().stderr, /^sluice: TLS_CLIENT_CA_FILE cannot be read: ENOENT.+missing-ca\.crt/);
  });

  test("REVIEWS_ON_PORT=true causes a warning at the start, with the port", async () => {
    const settings = { REVIEWS_ON_PORT: "true" };
    const server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace: "default", settings });
    try {
      const warning = () => server.log.some(({ level, msg }) => level === "warn" && warned.test(msg));
      const warned = new RegExp(`^REVIEWS_ON_PORT is true: any client of port ${new URL(server.url).port} can`);
      await eventually("the warning", 5_000, async () => (warning() ? true : undefined));
    } finally {
      await server.stop();
    }
  });

  test("SIGTERM ends it, with the API server's connections still open; then the webhook fails closed", async () => {
    assert.equal((await server.stop()).code, 0);
    const { code, stderr } = await kubectl(manifest("late"), "--dry-run=server");
    assert.ok(code === 1 && /failed calling webhook/.test(stderr), stderr);
  });
});

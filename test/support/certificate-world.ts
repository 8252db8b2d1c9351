/**
 * The fake cluster for a rotation of certificates: a Secret, webhook configurations, a clock, and writes that may kill the
 * writer.
 */
import assert from "node:assert/strict";
import { rotateCertificate } from "../../functions/rotate-certificate/function.ts";
import { generateKeys, issue } from "../../functions/shared/certificates/issue.ts";
import { dataOfFirstKey, parseReviewKeys, type ReviewKeys } from "../../functions/shared/certificates/review-key.ts";
import {
  dataOf,
  type Generation,
  parseCertificates,
  type StoredCertificates,
  splitPem,
} from "../../functions/shared/certificates/secret.ts";
import type { CertificateSettings } from "../../functions/shared/certificates/settings.ts";
import { type ActReport, silentReporter } from "../../functions/shared/contract/reporter.ts";
import type { Cluster, Resource, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { seededRandom } from "../fake-cluster/random.ts";
import { Store } from "../fake-cluster/store.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";

export const settings: CertificateSettings = {
  secret: { namespace: "mimir", name: "certificate" },
  namespaces: ["mimir"],
  dnsName: "rollout-operator.mimir.svc",
  organisation: "Grafana Labs",
  lifetimeMs: 60_000,
  updatesBundles: true,
};

/** A review key that every replica knows, for snapshots that are not about keys. */
export const known = {
  reviewKeys: { current: "c".repeat(64), next: undefined, previous: undefined },
  keyFault: undefined,
  keyKnownForMs: 60_000,
} as const;

/** A configuration without the label that asks for review keys. */
export const keyless = { pathKeys: [], keyRefusal: undefined } as const;

export const ours = { "grafana.com/inject-rollout-operator-ca": "true", "grafana.com/namespace": "mimir" };
/** Labels of a configuration that asks for review keys. */
export const keyed = { ...ours, "sluice.dev/review-key": "true" };
const noKeys: ReviewKeys = { current: undefined, next: undefined, previous: undefined };
const resource = "validatingwebhookconfigurations";
type ClientConfig = NonNullable<WebhookConfigurationObject["webhooks"]>[number]["clientConfig"];

/** Keys that all tests of a file share. */
const keys = await generateKeys();

/** A certificate that became valid `ageMs` ago, by the clock of the world. */
export function generationOf(
  nowMs: number,
  options: { ageMs?: number; dnsNames?: readonly string[] } = {},
): Promise<Pick<Generation, "ca" | "cert" | "key">> {
  const { ageMs = 0, dnsNames = [settings.dnsName] } = options;
  const notBeforeMs = nowMs - ageMs - 30_000;
  return issue(keys, { organisation: "Grafana Labs", dnsNames, notBeforeMs, notAfterMs: notBeforeMs + 90_000 });
}

export class CertificateWorld {
  readonly timeline = new VirtualTimeline(Date.parse("2026-11-21T12:00:00Z"));
  readonly store = new Store({ timeline: this.timeline, random: seededRandom(1) });
  readonly acts: string[] = [];
  readonly writes: string[] = [];
  readonly problems: string[] = [];
  /** Called before and after each write. An error that it throws is thrown by the call. */
  onWrite: (when: "before" | "after", what: string) => void = () => {};

  /** Called before each patch. An error that it throws is thrown by the call. */
  onPatch: (name: string, body: object) => void = () => {};

  /** Called, and awaited, before each read. It may throw. */
  onRead: (what: string) => Promise<void> | void = () => {};

  /** Adds a configuration whose two webhooks trust this bundle. Default: an empty one. */
  addConfiguration(name: string, options: { labels?: Readonly<Record<string, string>>; caBundle?: string } = {}): void {
    const { labels = ours, caBundle } = options;
    const bundle = caBundle === undefined ? {} : { caBundle: Buffer.from(caBundle).toString("base64") };
    const webhooks = ["a", "b"].map((entry) => ({
      name: `${entry}.${name}.grafana.com`,
      clientConfig: { service: { namespace: "mimir", name: "rollout-operator", path: `/${entry}` }, ...bundle },
      rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] }],
      admissionReviewVersions: ["v1"],
      sideEffects: "None",
    }));
    this.store.create(resource, "", { metadata: { name, labels }, webhooks });
  }

  addSecret(data: object): void {
    this.store.create("secrets", "mimir", { metadata: { name: "certificate" }, type: "Opaque", data });
  }

  /** Adds a Secret with a review key, whose certificate became valid `ageMs` ago, and two configurations that trust it. */
  async addRunning(ageMs: number, labels: Readonly<Record<string, string>> = ours): Promise<void> {
    const generation = await generationOf(this.timeline.nowMs(), { ageMs });
    this.addSecret({ ...dataOf("presented", generation), ...dataOfFirstKey(known.reviewKeys.current, noKeys) });
    for (const name of ["one", "two"]) this.addConfiguration(name, { labels, caBundle: generation.ca });
  }

  stored(): StoredCertificates {
    return parseCertificates(this.store.get("secrets", settings.secret));
  }

  storedKeys(): ReviewKeys {
    return parseReviewKeys(this.store.get("secrets", settings.secret));
  }

  /** The path of each webhook of a configuration. */
  paths(name: string): (string | undefined)[] {
    const { webhooks = [] } = this.store.get(resource, { namespace: "", name }) as WebhookConfigurationObject;
    return webhooks.map(({ clientConfig }) => clientConfig.service?.path);
  }

  /** Changes the client configuration of each webhook. */
  rewrite(name: string, change: (client: ClientConfig) => ClientConfig): void {
    const { webhooks = [] } = this.store.get(resource, { namespace: "", name }) as WebhookConfigurationObject;
    const rewritten = webhooks.map((webhook) => ({ ...webhook, clientConfig: change(webhook.clientConfig) }));
    this.store.patch(resource, { namespace: "", name }, { webhooks: rewritten });
  }

  /** The authorities that each webhook of a configuration trusts. */
  bundles(name: string): string[][] {
    const { webhooks = [] } = this.store.get(resource, { namespace: "", name }) as unknown as {
      webhooks?: { clientConfig: { caBundle?: string } }[];
    };
    return webhooks.map(({ clientConfig }) => splitPem(Buffer.from(clientConfig.caBundle ?? "", "base64").toString()));
  }

  /** Fails unless every configuration trusts the certificate that servers present now. */
  assertTrusted(): void {
    const { presented } = this.stored();
    for (const { metadata } of this.store.list(resource).items) {
      const trusting = this.bundles(metadata.name).every((bundle) => bundle.includes(presented?.ca ?? ""));
      assert.ok(trusting, `${metadata.name} does not trust what is presented`);
    }
  }

  advanceSeconds(seconds: number): void {
    this.timeline.runUntil(this.timeline.nowMs() + seconds * 1000);
  }

  /** Starts a process, which has a memory of its own. */
  start(options: Partial<CertificateSettings> & { mode?: "act" | "shadow" } = {}) {
    const { mode = "act", ...rest } = options;
    const act = ({ action, object, result }: ActReport) => void this.acts.push(`${action} ${object} ${result}`);
    const problem = (_key: object, _by: string, message: string) => void this.problems.push(message);
    const reporter = { ...silentReporter, act, problem };
    return rotateCertificate.open({ cluster: this.#cluster(), reporter, mode }, { ...settings, ...rest });
  }

  #cluster(): Cluster {
    const { store, timeline } = this;
    const write = async <T>(what: string, make: () => T): Promise<T> => {
      this.onWrite("before", what);
      const made = make();
      this.writes.push(what);
      this.onWrite("after", what);
      return made;
    };
    const cluster: Pick<Cluster, "get" | "list" | "create" | "patch" | "serverTimeMs" | "monotonicMs"> = {
      get: async (of: Resource, key) => {
        await this.onRead(`get ${of}`);
        return store.get(of, key) as never;
      },
      list: async (of: Resource, query) => {
        await this.onRead(`list ${of}`);
        return store.list(of, query) as never;
      },
      create: (of: Resource, namespace, body) =>
        write(`create ${of}`, () => store.create(of, namespace, body)) as Promise<never>,
      patch: (of: Resource, key, body) =>
        write(`patch ${of} ${key.name}`, () => {
          this.onPatch(key.name, body);
          return store.patch(of, key, body);
        }) as Promise<never>,
      serverTimeMs: () => timeline.nowMs(),
      monotonicMs: () => timeline.nowMs(),
    };
    return cluster as Cluster;
  }
}

/** Runs a process every second, and another one in its place after it was killed. */
export async function runFor(
  world: CertificateWorld,
  seconds: number,
  killed: Error,
  options: Partial<CertificateSettings> = {},
): Promise<boolean> {
  let wasKilled = false;
  let run = world.start(options);
  for (let second = 0; second < seconds; second++) {
    try {
      await run();
    } catch (error) {
      assert.equal(error, killed);
      wasKilled = true;
      run = world.start(options);
    }
    world.advanceSeconds(1);
  }
  return wasKilled;
}

/** Has the process killed before or after one of its writes. */
export function killAt(world: CertificateWorld, when: "before" | "after", write: number): Error {
  const kill = new Error("killed");
  let writes = 0;
  world.onWrite = (moment, what) => {
    world.assertTrusted();
    // A rotation goes on although an Event could not be sent.
    if (what !== "create events" && moment === when && ++writes === write) throw kill;
  };
  return kill;
}

/** A pod is asked over https, with a certificate of a private authority from a Secret or a ConfigMap. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type AuthorityRef, parseAuthorityRef } from "../../../../functions/shared/annotations/health.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { healthByStatus } from "../../../../functions/shared/health/answer.ts";
import { askPod } from "../../../../functions/shared/health/ask-pod.ts";
import { type Cluster, ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { Health } from "../../../../functions/shared/ledger/health-rule.ts";
import { type Authority, createAuthority, type IssuedPair } from "../../../support/certificates.ts";
import { clock, type PlayedPods, withPods } from "../../../support/played-pods.ts";

const limit = { timeout: 20_000 };
const key = "sluice.dev/health-authority";
let authority: Authority;
let other: Authority;
let secure: IssuedPair;

before(async () => {
  [authority, other] = await Promise.all([createAuthority(), createAuthority()]);
  secure = await authority.issue("web-0.web.ns.svc.cluster.local");
});

type Data = Readonly<Record<string, string>>;

/** A process with these objects by \`RESOURCE NAME\`, whose reads are counted. */
class Asking {
  readonly objects = new Map<string, Data | ClusterError>();
  readonly #cluster: Cluster;
  reads = 0;
  #passedMs = 0;

  constructor() {
    const get = async (resource: string, { namespace, name }: { namespace: string; name: string }) => {
      this.reads += 1;
      assert.equal(namespace, "ns");
      const data = this.objects.get(`${resource} ${name}`) ?? refused(404, "NotFound", "not found");
      if (data instanceof ClusterError) throw data;
      return { metadata: { name }, data };
    };
    const monotonicMs = () => clock.monotonicMs() + this.#passedMs;
    this.#cluster = { ...clock, monotonicMs, get } as unknown as Cluster;
  }

  later(ms: number): void {
    this.#passedMs += ms;
  }

  ask({ pods, address }: PlayedPods, authority: AuthorityRef | undefined): Promise<Health> {
    const question = { address, path: "/health", secret: undefined, authority, authorityKey: key };
    const context = { cluster: this.#cluster, pods } as unknown as Context;
    const deadlineMs = this.#cluster.monotonicMs() + 4_500;
    return askPod(context, { ...question, read: healthByStatus }, deadlineMs);
  }
}

function refused(code: number, reason: string, message: string): ClusterError {
  return new ClusterError({ code, reason, message, verb: "get", resource: "secrets" });
}

const secret: AuthorityRef = { resource: "secrets", name: "ca" };
const configMap: AuthorityRef = { resource: "configmaps", name: "ca" };
const encoded = (text: string): Data => ({ "ca.crt": btoa(text) });

test("a pod's answer counts if a Secret or a ConfigMap names its authority, among others as well", limit, async () => {
  await withPods({ secure }, async (played) => {
    const asking = new Asking();
    asking.objects.set("secrets ca", encoded(`${authority.cert}\n${other.cert}`));
    asking.objects.set("configmaps ca", { "ca.crt": `# ours\n${authority.cert}` });
    assert.equal((await asking.ask(played, secret)).state, "good");
    assert.equal((await asking.ask(played, configMap)).state, "good");
    assert.equal(played.asked.length, 2);
  });
});

test(
  "without its authority, or with another one, a pod gives no answer, and the message says what to write",
  limit,
  async () => {
    await withPods({ secure }, async (played) => {
      const asking = new Asking();
      const unnamed = await asking.ask(played, undefined);
      const [what = "", where = ""] = unnamed.detail.split(": ");
      assert.deepEqual([unnamed.state, what], ["unknown", "no authority that is trusted has signed its certificate"]);
      assert.match(where, /^write secret\/NAME or configmap\/NAME, whose ca\.crt holds its authority, into sluice/);
      assert.match(unnamed.detail, /sluice\.dev\/health-authority: GET web-0\.web in ns, port \d+, path \/health: /);
      asking.objects.set("secrets ca", encoded(other.cert));
      const wrong = await asking.ask(played, secret);
      assert.equal(wrong.state, "unknown");
      assert.match(
        wrong.detail,
        /^the authority in ca\.crt of secret\/ca, which sluice\.dev\/health-authority names, has not/,
      );
      assert.match(wrong.detail, /signed its certificate: put the one there that has: GET web-0\.web in ns/);
      assert.equal(played.asked.length, 0, "nothing was sent");
    });
  },
);

test("a malformed Secret or ConfigMap is reported, and no pod is asked", limit, async () => {
  await withPods({ secure }, async (played) => {
    const asking = new Asking();
    const broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
    const cases: readonly [string, Data | ClusterError | undefined, RegExp][] = [
      ["missing", undefined, /^secret\/ca could not be read: .*not found/],
      [
        "forbidden",
        refused(403, "Forbidden", 'secrets "ca" is forbidden: User "sluice" cannot get resource "secrets"'),
        /; a Role must give Sluice the right to get it by its name: write one with apiGroups: \[""\], resources: \[\w+\], resourceNames: \[\w+\], verbs: \[get\], and bind it to that account$/,
      ],
      [
        "no key",
        { "tls.crt": btoa("x") },
        /^secret\/ca has no ca\.crt, which is to hold an authority's certificate in PEM$/,
      ],
      ["empty", encoded(""), /^secret\/ca has no ca\.crt/],
      ["no PEM", encoded("hello"), /^ca\.crt of secret\/ca holds no certificate in PEM$/],
      ["a key", encoded(secure.key), /^ca\.crt of secret\/ca holds no certificate in PEM$/],
      ["rubbish", encoded(broken), /^ca\.crt of secret\/ca holds a certificate that Sluice cannot read$/],
    ];
    for (const [what, data, expected] of cases) {
      asking.objects.clear();
      if (data !== undefined) asking.objects.set("secrets ca", data);
      const health = await asking.ask(played, secret);
      assert.equal(health.state, "unknown", what);
      assert.match(health.detail, expected);
    }
    asking.objects.set("secrets ca", encoded(authority.cert));
    assert.equal((await asking.ask(played, secret)).state, "good", "after a correction it is read again at once");
    assert.equal(played.asked.length, 1);
  });
});

test("the Secret or ConfigMap is read once in ten seconds, however often pods are asked", limit, async () => {
  await withPods({ secure }, async (played) => {
    const asking = new Asking();
    asking.objects.set("secrets ca", encoded(authority.cert));
    await Promise.all(Array.from({ length: 20 }, () => asking.ask(played, secret)));
    await asking.ask(played, secret);
    assert.equal(asking.reads, 1);
    asking.objects.set("secrets ca", encoded(other.cert));
    assert.equal((await asking.ask(played, secret)).state, "good");
    asking.later(10_000);
    assert.equal((await asking.ask(played, secret)).state, "unknown", "it now has another authority");
    assert.equal(asking.reads, 2);
  });
});

test("an annotation names a Secret or a ConfigMap of the same namespace, and nothing else", () => {
  assert.deepEqual(parseAuthorityRef("secret/rabbit-ca"), { resource: "secrets", name: "rabbit-ca" });
  assert.deepEqual(parseAuthorityRef("configmap/ca"), { resource: "configmaps", name: "ca" });
  for (const text of ["", "ca", "secret/", "secrets/ca", "secret/ns/ca", "secret/../ca", "Secret/ca", "secret/a b"])
    assert.equal(parseAuthorityRef(text), undefined, text);
});

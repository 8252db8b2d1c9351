/**
 * TLS is switched on for a real OpenSearch by changed Secrets, one after the other. A node with TLS cannot join one without, so
 * that the function, which is killed meanwhile, restarts all processes together by itself.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { fetch } from "undici";
import { eventually } from "../controlplane/api.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { slowMs } from "./nodes.ts";
import { asDatabase, hostOf, namesIn, namespace, Pods } from "./pods.ts";
import { openSearchForTests } from "./program.ts";
import { Security, user, withTls } from "./security.ts";
import { assertNothingLeft, assertTogether, writeDocument } from "./together.ts";
import { Wire } from "./wire.ts";

const home = await openSearchForTests();
const packages = await packagesForTests();
const skip = home === undefined || packages === undefined || (await skipWithoutControlPlane());
const passwordSecret = "db-password";

suite("a real OpenSearch whose Secrets switch on TLS", { skip }, () => {
  let pods: Pods;
  let security: Security;
  let wirePort: number;
  const wires: Wire[] = [];

  before(async () => {
    if (home === undefined || packages === undefined) return;
    security = await Security.make(namesIn(3).map(hostOf));
    wirePort = await freePort();
    const annotations = () => ({
      ...asDatabase(wirePort),
      "sluice.dev/restart-database-url": `https://:${wirePort} http://:${wirePort}`,
      "sluice.dev/restart-database-secret": passwordSecret,
    });
    pods = await Pods.open({ home, packages, zones: 3, annotations, hasSecrets: true, security });
    const stringData = { ...user, "ca.crt": security.authority };
    await pods.api.post(`/api/v1/namespaces/${namespace}/secrets`, { metadata: { name: passwordSecret }, stringData });
    for (const name of pods.names) wires.push(await Wire.open(pods.nodes.addressOf(name), wirePort, pods.nodes.port));
    await pods.startFunction();
  });

  after(async () => {
    await pods?.close();
    for (const wire of wires) await wire.close();
    if (wirePort !== undefined) releasePorts(wirePort);
  });

  test("one restart of all follows the last Secret, then all answer https alone, and no password went without TLS", async () => {
    const { nodes, names } = pods;
    const [first = "", ...others] = names;
    await writeDocument(pods);
    const begun = (await pods.journal()).length;
    const since = async () => (await pods.journal()).slice(begun);
    await pods.expect(withTls, [first]);
    const disagrees = "have in common, and ";
    await eventually("a wait for the other Secrets", slowMs, async () => pods.log.includes(disagrees) || undefined);
    assert.deepEqual(await since(), []);
    await pods.expect(withTls, others);
    await eventually("a process that stops", slowMs, async () => (await since()).length > 0 || undefined);
    await pods.startFunction();
    await assertTogether(pods, since);
    await assertNothingLeft(pods);
    for (const name of names) {
      await assert.rejects(nodes.askBy("http", name, "/"), `${name} answers without TLS`);
      assert.equal((await nodes.askBy("https", name, "/")).status, 200, name);
    }
    const { status } = await fetch(`https://${nodes.addressOf(first)}:${nodes.port}/`, { dispatcher: security.agent });
    assert.equal(status, 401, "only with its password the function has undone what it changed");
    const plain = wires.map((wire) => wire.plain).join("");
    assert.match(plain, /^PUT \/_cluster\/settings HTTP/m, "without TLS the function was answered before the switch");
    assert.equal(/^authorization:.*$/im.exec(plain)?.[0], undefined);
  });
});

/** The page behind what stands between a user and a cluster: `kubectl proxy`, and the API server's proxy to Services. */
import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import type { Status } from "../../functions/shared/contract/status.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup } from "../controlplane/fixtures.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { browserForTests } from "./program.ts";
import { openPage } from "./viewed.ts";

const launchBrowser = await browserForTests();
const namespace = "viewed";

/** The API server's proxy refuses loopback addresses. */
const ownAddress = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;

describe("the page behind proxies, on a real API server", {
  skip: launchBrowser === undefined || ownAddress === undefined || (await skipWithoutControlPlane()),
}, () => {
  let browser: Browser;
  let controlPlane: ControlPlane;
  let api: Api;
  let server: Server;
  let proxy: Launched;
  let url: string;

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-proxies" });
    await createGroup(controlPlane, { namespace, name: "db", zones: 2, pods: 2, maxUnavailable: 1 });
    const settings = { STATUS_LISTEN: "0.0.0.0:0", FUNCTION: "advance-zone-rollout,show-status" };
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace, settings });
    await server.ready();
    const port = server.log.find(({ statusPort }) => statusPort !== undefined)?.statusPort;
    await createService(Number(port));
    proxy = launch(controlPlane.kubectl, ["--kubeconfig", controlPlane.kubeconfig, "proxy", "--port=0"], {
      output: "pipe",
    });
    const [, address] = await eventually("kubectl proxy", 20_000, async () => {
      return /Starting to serve on (\S+)/.exec(proxy.printed().stdout) ?? undefined;
    });
    url = `http://${address}/api/v1/namespaces/${namespace}/services/http:status:8002/proxy/`;
    browser = (await launchBrowser?.()) ?? assert.fail();
  });

  after(async () => {
    await browser?.close();
    await proxy?.stop(0);
    await server?.stop();
    await api?.close();
    await controlPlane?.stop();
  });

  /** A Service whose only address is this machine's, as that of a pod, which the proxy asks for. */
  async function createService(port: number): Promise<void> {
    const core = `/api/v1/namespaces/${namespace}`;
    const metadata = { name: "status", namespace };
    await api.post(`${core}/services`, {
      metadata,
      spec: { ports: [{ name: "status", port: 8002, targetPort: port }] },
    });
    const containers = [{ name: "sluice", image: "sluice" }];
    await api.post(`${core}/pods`, { metadata, spec: { nodeName: "none", containers } });
    const podIPs = [{ ip: ownAddress }];
    await api.patch(`${core}/pods/status/status`, { status: { podIP: ownAddress, podIPs } });
    const targetRef = { kind: "Pod", name: "status", namespace };
    const subsets = [{ addresses: [{ ip: ownAddress, targetRef }], ports: [{ name: "status", port }] }];
    await api.post(`${core}/endpoints`, { metadata, subsets });
  }

  test("page, JSON and assets load through both, and the page goes on refreshing itself", async () => {
    for (const path of ["", "ui/status"]) {
      const answer = await fetch(`${url}${path}`, { headers: { accept: "application/json" } });
      assert.equal(answer.status, 200, path);
      const { groups } = (await answer.json()) as Status;
      assert.deepEqual(
        groups.map(({ group }) => group),
        ["db"],
      );
      const { page, complaints } = await openPage(browser, `${url}${path}`);
      assert.match((await page.locator("body").textContent()) ?? "", /db-zone-a/);
      assert.notEqual(await page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgba(0, 0, 0, 0)");
      const time = await page.locator(".fresh time").textContent();
      await page.locator(`.fresh time:not(:text-is("${time}"))`).waitFor();
      await page.getByRole("link", { name: "JSON" }).click();
      assert.match(await page.content(), /answeredBy/);
      assert.deepEqual(complaints, []);
      await page.close();
    }
  });
});

/** A process that shows the status of a group on the fake cluster, in virtual time. */
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { showStatus } from "../../../../functions/show-status/function.ts";
import type { StatusSource } from "../../../../triggers/standalone.ts";
import { createTestWorld, type TestWorldOptions } from "../../triggers/server/world.ts";
import { guards } from "./given.ts";

export const answeredBy = { replica: "sluice-0", version: "1.2.3", mode: "act", namespaces: null } as const;

/** The group is app/ingester, three zones of three pods. Unless the options name one, the process has no other function. */
export async function started(options: Partial<TestWorldOptions> = {}, source: Partial<StatusSource> = {}) {
  const status = { definition: showStatus, guards, answeredBy, ...source };
  const testWorld = createTestWorld({ definitions: [], status, ...options });
  const standalone = testWorld.start();
  await testWorld.goTo(1);
  const read = async (atSeconds: number): Promise<Status | undefined> => {
    await testWorld.goTo(atSeconds);
    const reading = standalone.readStatus?.();
    await testWorld.goTo(atSeconds + 3);
    return reading;
  };
  const { calls } = testWorld;
  const requests = () =>
    calls
      .splice(0)
      .filter(({ verb }) => verb !== "watch")
      .map(({ verb, resource }) => `${verb} ${resource}`);
  requests();
  return { ...testWorld, standalone, read, requests };
}

export function failing(code: number, message: string, resource = "leases", verb = "list"): ClusterError {
  return new ClusterError({ code, reason: "Test", message, verb, resource });
}

/** The governing Services of StatefulSets whose processes restart in place. */
import type { Api } from "../controlplane/api.ts";
import type { FixtureGroup } from "../controlplane/fixtures.ts";

/** Pods that are not ready have names by them, so that a stopped process can be started. */
export async function createGoverningServices(api: Api, { namespace, statefulSets }: FixtureGroup): Promise<void> {
  for (const name of statefulSets) {
    const spec = { clusterIP: "None", publishNotReadyAddresses: true, selector: { name }, ports: [{ port: 80 }] };
    await api.post(`/api/v1/namespaces/${namespace}/services`, { metadata: { name }, spec });
  }
}

/** The names of a cluster for the Tab key. */

import { escapeControls } from "../../functions/shared/base/escape-control.ts";
import { isStatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import { complete, noFiles, readWritten } from "./completion.ts";
import { findGroups, readOrFail } from "./groups.ts";
import { createShadow } from "./inspection.ts";
import { inspectSuspended } from "./suspended.ts";
import type { ApiConnection, ExitCode, Terminal } from "./terminal.ts";
import { inspectOrFail } from "./why.ts";

/** For a shell, which has no place for the message of a failure. */
export async function offer(typed: readonly string[], { connect, out }: Terminal): Promise<ExitCode> {
  let connection: Promise<ApiConnection> | undefined;
  const { namespace: asked, ...place } = readWritten(typed);
  const find = async () => {
    connection ??= connect(place);
    const { cluster, namespace: usual } = await connection;
    const namespace = asked ?? usual;
    return { shadow: createShadow(cluster, namespace), namespace };
  };
  try {
    const offered = await complete(typed, {
      async groups() {
        const { shadow, namespace } = await find();
        const { keys } = await findGroups(shadow, namespace);
        return keys.map(({ group }) => group);
      },
      async reserved(group) {
        const { shadow, namespace } = await find();
        const { reservations } = await inspectOrFail(shadow, { namespace, group });
        return reservations.map(({ pod }) => pod);
      },
      async pods(group) {
        const { shadow, namespace } = await find();
        const { view } = await readOrFail(shadow, { namespace, group });
        return view.workloads.flatMap((one) => [...view.podsOf(one)].map(({ name }) => name));
      },
      async zones(group) {
        const { shadow, namespace } = await find();
        const { view } = await readOrFail(shadow, { namespace, group });
        return view.workloads.filter(isStatefulSet).map(({ name }) => name);
      },
      async suspended() {
        const { shadow, namespace } = await find();
        const { claims } = await inspectSuspended(shadow.cluster, namespace);
        const groups = new Set(claims.flatMap(({ group }) => group ?? []));
        return { claims: claims.map(({ claim }) => claim), groups: [...groups] };
      },
      async nodes() {
        const { shadow } = await find();
        const { items } = await shadow.cluster.list("nodes", {});
        return items.map(({ metadata }) => metadata.name);
      },
    });
    out(offered.map((word) => `${escapeControls(word)}\n`).join(""));
  } catch {
    // A user who presses the Tab key sees names, or none.
  } finally {
    await (await connection?.catch(() => undefined))?.close();
  }
  out(`${noFiles}\n`);
  return 0;
}

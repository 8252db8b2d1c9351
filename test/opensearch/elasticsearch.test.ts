/** A process of a real Elasticsearch restarts in place as one of OpenSearch does, by the same requests. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { assertRestartsAlone } from "./alone.ts";
import { marker } from "./nodes.ts";
import { asDatabase } from "./pods.ts";
import { homeForTests } from "./program.ts";
import { skip, stage } from "./stage.ts";
import { Wire } from "./wire.ts";

const home = await homeForTests("elasticsearch");

suite("a process of a real Elasticsearch that restarts inside its pod", { skip: skip || home === undefined }, () => {
  let wirePort: number | undefined;
  let wire: Wire | undefined;

  const on = stage(async () => {
    const port = await freePort();
    wirePort = port;
    return {
      ...(home === undefined ? {} : { home }),
      ...{ product: "elasticsearch", zones: 1 },
      annotations: () => ({ ...asDatabase(port), "sluice.dev/restart-database": "elasticsearch" }),
      async prepare({ nodes, names: [name = ""] }) {
        wire = await Wire.open(nodes.addressOf(name), port, nodes.port);
      },
    };
  });

  after(async () => {
    await wire?.close();
    if (wirePort !== undefined) releasePorts(wirePort);
  });

  test("it runs with the new file, allocation was restricted meanwhile and is as the user had it, and nothing is left", async () => {
    await assertRestartsAlone(on.pods);
    const writes = wire?.plain.split(/(?=PUT \/_cluster\/settings)/).slice(1) ?? [];
    assert.equal(writes.length, 2);
    assert.match(writes[0] ?? "", new RegExp(`"${marker}":"[^"]+;previous=all"`));
    assert.match(writes[1] ?? "", new RegExp(`"${marker}":null`));
  });
});

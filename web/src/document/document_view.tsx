import { Anchor, Badge, Group, Stack, Tabs, Title } from "@mantine/core";
import type { v1 } from "folio-client";
import { lazy, Suspense, useCallback, useDeferredValue, useMemo, useRef, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { stateLabel } from "../documents/filters.js";
import { EmptyState, LoadingState, QueryView } from "../states/states.js";
import { linkedHighlight } from "./box_link.js";
import { FocusContext, hasPageImages, type Highlight } from "./focus.js";
import classes from "./page.module.css";
import { PagesPane, type PagesHandle } from "./pages_pane.js";
import { useDocument, useDocumentText, useLiveDocument } from "./queries.js";
import { matchingPages } from "./search.js";
import { TextView } from "./text_view.js";
import { ProposalBanner } from "./proposal_banner.js";
import { ProtectedNotice } from "./protected_notice.js";
import { Thumbnails } from "./thumbnails.js";
import { Toolbar } from "./toolbar.js";

const ExtractionPanel = lazy(async () => ({ default: (await import("../extraction/extraction_panel.js")).ExtractionPanel }));
const AgentPanel = lazy(async () => ({ default: (await import("../agent/agent_panel.js")).AgentPanel }));

const OutlinePanel = lazy(async () => ({ default: (await import("./outline_panel.js")).OutlinePanel }));
const SplitPanel = lazy(async () => ({ default: (await import("./split_panel.js")).SplitPanel }));

const PANELS = ["extraction", "agent", "outline", "text", "split"] as const;

/** A document: its pages, and the panels that work with it. */
export function DocumentView({ documentId }: { readonly documentId: string }) {
  const document = useDocument(documentId);
  useLiveDocument(documentId);
  return (
    <QueryView query={document} empty={(data) => (data === null ? <EmptyState title="Not found" /> : undefined)}>
      {(data) => data !== null && <LoadedDocument document={data} />}
    </QueryView>
  );
}

function LoadedDocument({ document }: { readonly document: v1.Document }) {
  const { documentId, name, state, stateReason, mediaType, textGeneration } = document;
  const [parameters, setParameters] = useSearchParams();
  const isSplittable = mediaType === "application/pdf" && document.pages > 1;
  const panel = PANELS.find((known) => known === parameters.get("panel") && (known !== "split" || isSplittable)) ?? "extraction";
  const [initialPage] = useState(() => Number(parameters.get("page")) || 1);
  const [page, setPage] = useState(1);
  const [zoom, setZoom] = useState(1);
  const [search, setSearch] = useState("");
  const [highlight, setHighlight] = useState<Highlight | undefined>(() => linkedHighlight(parameters));
  const handle = useRef<PagesHandle>(null);
  const goTo = useCallback((page: number) => handle.current?.goTo(page), []);
  const focus = useMemo(() => ({ highlight, setHighlight, goTo }), [highlight, goTo]);

  const wanted = useDeferredValue(search);
  const text = useDocumentText(documentId, textGeneration, wanted.trim() !== "");
  const matches = useMemo(() => matchingPages(text.data ?? [], wanted), [text.data, wanted]);
  const { label, color } = stateLabel(state);
  // A document without a text has an unknown number of pages; its first page can be shown.
  const pages = Math.max(document.pages, 1);
  const hasImages = hasPageImages(mediaType);

  return (
    <FocusContext value={focus}>
      <Stack gap="xs">
        <Group gap="sm" wrap="nowrap">
          <Anchor component={Link} href="/" size="sm">Documents</Anchor>
          <Title order={1} size="h4" className="foreign" lineClamp={1}>{name}</Title>
          <Badge variant="light" color={color} title={stateReason}>{label}</Badge>
        </Group>
        <ProtectedNotice document={document} />
        <ProposalBanner documentId={documentId} />
        <div className={classes["layout"]}>
          {hasImages ? <Thumbnails documentId={documentId} pages={pages} current={page} onPage={goTo} /> : <span />}
          <section className={classes["viewer"]} aria-label="Pages of the document">
            {hasImages ? (
              <>
                <Toolbar page={page} pages={pages} zoom={zoom} search={search} matches={matches} onPage={goTo} onZoom={setZoom} onSearch={setSearch} />
                <PagesPane ref={handle} documentId={documentId} generation={textGeneration} pages={pages} zoom={zoom} search={wanted} initialPage={initialPage} onPage={setPage} />
              </>
            ) : (
              <div className={classes["pages"]} style={{ padding: 16 }}><TextView document={document} /></div>
            )}
          </section>
          <section className={classes["panel"]} aria-label="Panels">
            <Tabs
              value={panel}
              keepMounted={false}
              onChange={(panel) => setParameters((before) => { before.set("panel", panel ?? "extraction"); return before; }, { replace: true })}
            >
              <Tabs.List mb="sm" aria-label="Panel">
                <Tabs.Tab value="extraction">Extraction</Tabs.Tab>
                <Tabs.Tab value="agent">Agent</Tabs.Tab>
                <Tabs.Tab value="outline">Outline</Tabs.Tab>
                <Tabs.Tab value="text">Text</Tabs.Tab>
                {isSplittable && <Tabs.Tab value="split">Split</Tabs.Tab>}
              </Tabs.List>
              <Suspense fallback={<LoadingState />}>
                <Tabs.Panel value="extraction"><ExtractionPanel document={document} /></Tabs.Panel>
                <Tabs.Panel value="agent"><AgentPanel documentId={documentId} /></Tabs.Panel>
                <Tabs.Panel value="outline"><OutlinePanel document={document} /></Tabs.Panel>
                <Tabs.Panel value="text"><TextView document={document} /></Tabs.Panel>
                {isSplittable && <Tabs.Panel value="split"><SplitPanel document={document} /></Tabs.Panel>}
              </Suspense>
            </Tabs>
          </section>
        </div>
      </Stack>
    </FocusContext>
  );
}

# A BitTorrent client: downloads what a torrent names, marks that it has it, and
# seeds until it is killed. Arguments: torrent, directory, mark, own address, and words:
#   tuned      settings for a swarm of equals in one network
#   seed       the files are there already
#   wait=FILE  begin when FILE is there; with its session up make the mark's name and ".up"
import os, sys, time
import libtorrent as lt

torrent, where, mark, address, words = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]

settings = {
    "listen_interfaces": address + ":6881",
    "enable_dht": False, "enable_lsd": False, "enable_upnp": False, "enable_natpmp": False,  # there is nobody to ask
    "alert_mask": lt.alert.category_t.status_notification | lt.alert.category_t.storage_notification | lt.alert.category_t.error_notification,
}
info = lt.torrent_info(torrent)
if "tuned" in words:
    settings.update({
        # TCP alone: uTP gives way to it.
        "enable_outgoing_utp": False, "enable_incoming_utp": False, "mixed_mode_algorithm": 0,
        # Everybody serves everybody, instead of 8 at a time.
        "unchoke_slots_limit": -1, "choking_algorithm": 0, "num_optimistic_unchoke_slots": 0, "unchoke_interval": 2,
        "connections_limit": 1000, "connection_speed": 500, "smooth_connects": False, "torrent_connect_boost": 255,
        "peer_turnover": 0, "close_redundant_connections": False, "allow_multiple_connections_per_ip": True,
        # One piece a request of a web seed, two of them under way.
        "urlseed_max_request_bytes": info.piece_length(), "urlseed_pipeline_size": 2, "urlseed_wait_retry": 1,
        # Rarest first from the first piece on, and whole pieces from one peer.
        "initial_picker_threshold": 0, "prioritize_partial_pieces": False, "predictive_piece_announce": 0, "strict_end_game_mode": False,
        "request_queue_time": 1, "max_out_request_queue": 256, "max_allowed_in_request_queue": 2000,
        "send_buffer_watermark": 1 << 20, "send_buffer_low_watermark": 128 << 10, "rate_limit_ip_overhead": False,
        "hashing_threads": 1, "aio_threads": 2,
    })
session = lt.session(settings)
for word in words:
    if word.startswith("wait="):
        open(mark + ".up", "w").close()
        while not os.path.exists(word[len("wait="):]):
            time.sleep(0.01)
p = lt.add_torrent_params()
p.ti, p.save_path = info, where
if "seed" in words:
    p.flags |= lt.torrent_flags.seed_mode
p.flags &= ~lt.torrent_flags.auto_managed
p.flags &= ~lt.torrent_flags.paused
handle = session.add_torrent(p)

flushing = False
while True:
    session.wait_for_alert(1000)
    for a in session.pop_alerts():
        if isinstance(a, (lt.file_error_alert, lt.torrent_error_alert, lt.listen_failed_alert)):
            sys.exit(a.message())
        if isinstance(a, lt.torrent_finished_alert) and not flushing:
            flushing = True
            handle.flush_cache()
        if isinstance(a, lt.cache_flushed_alert) and flushing and not os.path.exists(mark):
            for i in range(info.num_files()):
                with open(os.path.join(where, info.files().file_path(i)), "rb") as f:
                    os.fsync(f.fileno())
            open(mark, "w").close()
    if "seed" in words and not os.path.exists(mark):
        open(mark, "w").close()

//! The last words to a client.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::relay::End;

/// Bytes of what a client still says that are read, so that it hears us.
const REST: usize = 1 << 20;

/// For a client to take the words, and to leave.
const HEARING: Duration = Duration::from_secs(10);

/// Says something, ends our side, and gives the client some time to end its own: closed with something unread, the connection would be
/// reset, and the words lost. Whether it has heard them or not, it is to be closed then.
pub(super) async fn part(client: &mut End, words: &[u8]) {
    let _ = timeout(HEARING, heard(client, words)).await;
}

async fn heard(client: &mut End, words: &[u8]) -> io::Result<()> {
    client.write_all(words).await?;
    client.shutdown().await?;
    let mut read = 0;
    let mut rest = [0; 4096];
    while read < REST {
        match client.read(&mut rest).await? {
            0 => break,
            count => read += count,
        }
    }
    Ok(())
}
